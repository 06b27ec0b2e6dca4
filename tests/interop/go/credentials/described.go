package main

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-openapi/errors"
	"github.com/go-openapi/strfmt"
)

// described is a model of the packages, which knows the required members and their formats.
type described interface {
	Validate(strfmt.Registry) error
}

// Operations whose answers differ from the description, here and in the established controller.
var misdescribed = map[string]bool{
	"Authenticator.CreateAuthenticator": true, // described as the sent body; the answer is that of every create
	"Informational.DetailSpecBody":      true, // described as an envelope; the answer is the text alone
}

// formats checks the members with a format. Links are relative.
var formats = func() strfmt.Registry {
	registry, link := strfmt.NewFormats(), strfmt.URI("")
	registry.Add("uri", &link, func(text string) bool { _, err := url.Parse(text); return err == nil })
	return registry
}()

// departs returns how the last answer differs from its model; empty if it does not.
func (a *API) departs(model described) string {
	var document any
	if err := json.Unmarshal(a.wire.body, &document); err != nil {
		return err.Error()
	}
	departures := []string{}
	for _, wrong := range violations(model.Validate(formats)) {
		// The packages treat null as missing, although the description requires the member, which may be null.
		if is, known := wrong.(*errors.Validation); known && is.Code() == errors.RequiredFailCode && isNull(document, is.Name) {
			continue
		}
		departures = append(departures, wrong.Error())
	}
	return strings.Join(departures, ", ")
}

// violations returns the single errors of a combined error.
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

// isNull returns whether a member with a name such as data.0.kid is null.
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
