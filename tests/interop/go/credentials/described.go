package main

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-openapi/errors"
	"github.com/go-openapi/strfmt"
)

// described is a model of the packages: it knows which members there must be and what they look like.
type described interface {
	Validate(strfmt.Registry) error
}

// Where answers are something else than what the description says of them, here as in the controller that clients know.
var misdescribed = map[string]bool{
	"Authenticator.CreateAuthenticator": true, // said to be what was sent; it is what every new thing is answered with
	"Informational.DetailSpecBody":      true, // said to be in an envelope; it is the text alone
}

// formats is what the members that have a format look like. Links are relative.
var formats = func() strfmt.Registry {
	registry, link := strfmt.NewFormats(), strfmt.URI("")
	registry.Add("uri", &link, func(text string) bool { _, err := url.Parse(text); return err == nil })
	return registry
}()

// departs says in what the last answer is not what its model describes; nothing if it is.
func (a *API) departs(model described) string {
	var document any
	if err := json.Unmarshal(a.wire.body, &document); err != nil {
		return err.Error()
	}
	departures := []string{}
	for _, wrong := range violations(model.Validate(formats)) {
		// What is null is nothing to the packages, although the description wants the member to be there as null.
		if is, known := wrong.(*errors.Validation); known && is.Code() == errors.RequiredFailCode && isNull(document, is.Name) {
			continue
		}
		departures = append(departures, wrong.Error())
	}
	return strings.Join(departures, ", ")
}

// violations are the single ones of an error that holds others.
func violations(err error) []error {
	if err == nil {
		return nil
	}
	composite, is := err.(*errors.CompositeError)
	if !is {
		return []error{err}
	}
	all := []error{}
	for _, part := range composite.Errors {
		all = append(all, violations(part)...)
	}
	return all
}

// isNull says whether a member, named as in data.0.kid, is there and null.
func isNull(document any, path string) bool {
	names := strings.Split(path, ".")
	for _, name := range names {
		switch inner := document.(type) {
		case map[string]any:
			member, there := inner[name]
			if !there {
				return false
			}
			document = member
		case []any:
			at, err := strconv.Atoi(name)
			if err != nil || at < 0 || at >= len(inner) {
				return false
			}
			document = inner[at]
		default:
			return false
		}
	}
	return document == nil
}
