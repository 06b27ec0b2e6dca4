package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-openapi/runtime"
	openapi "github.com/go-openapi/runtime/client"
	"github.com/go-openapi/strfmt"
	"github.com/openziti/edge-api/rest_client_api_client"
	"github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_model"
	"github.com/openziti/edge-api/rest_util"
)

// A Caller is the sender of requests: the credentials sent with each.
type Caller struct {
	token  string           // of an API session
	bearer string           // an external token
	cert   *tls.Certificate // of the connection
}

func (c Caller) AuthenticateRequest(request runtime.ClientRequest, _ strfmt.Registry) error {
	if c.bearer != "" {
		if err := request.SetHeaderParam("Authorization", "Bearer "+c.bearer); err != nil {
			return err
		}
	}
	if c.token == "" {
		return nil
	}
	return request.SetHeaderParam("zt-session", c.token)
}

// An API is one interface of the controller for one caller, through its generated package.
type API struct {
	name   string
	client reflect.Value // *ZitiEdgeManagement or *ZitiEdgeClient
	caller Caller
	wire   *wire
	stage  *Stage
}

// open returns the interface, "management" or "client", for a caller.
func (s *Stage) open(name string, caller Caller) *API {
	settings, _ := rest_util.NewTlsConfig()
	settings.RootCAs = s.trusted
	if caller.cert != nil {
		settings.Certificates = []tls.Certificate{*caller.cert}
	}
	client, _ := rest_util.NewHttpClientWithTlsConfig(settings)
	wire := &wire{next: client.Transport}
	client.Transport = wire

	path := map[string]string{"management": rest_management_api_client.DefaultBasePath, "client": rest_client_api_client.DefaultBasePath}[name]
	transport := openapi.NewWithClient(s.address, path, []string{"https"}, client)
	transport.DefaultAuthentication = caller
	transport.Consumers["application/json"] = runtime.ConsumerFunc(jsonOrText)
	for _, media := range []string{"application/jwt", "application/pkcs7-mime", "application/x-pem-file", "image/png", "text/yaml"} {
		transport.Consumers[media] = runtime.TextConsumer()
	}
	api := &API{name: name, caller: caller, wire: wire, stage: s}
	if name == "management" {
		api.client = reflect.ValueOf(rest_management_api_client.New(transport, strfmt.Default))
	} else {
		api.client = reflect.ValueOf(rest_client_api_client.New(transport, strfmt.Default))
	}
	return api
}

// jsonOrText reads JSON; or the raw text if the description says that the answer is a text (POST /enroll), although it is JSON.
func jsonOrText(body io.Reader, into any) error {
	if _, text := into.(*string); text {
		return runtime.TextConsumer().Consume(body, into)
	}
	return runtime.JSONConsumer().Consume(body, into)
}

// Fields are the parameters of an operation that are set.
type Fields map[string]any

// call calls an operation, "Subject.Operation", and returns its payload; nil if it has none.
func (a *API) call(operation string, with Fields) (any, error) {
	a.stage.ledger.Call(a.name + " " + operation)
	subject, name, _ := strings.Cut(operation, ".")
	method := a.client.Elem().FieldByName(subject).MethodByName(name)
	params := reflect.New(method.Type().In(0).Elem())
	for field, value := range with {
		params.Elem().FieldByName(field).Set(reflect.ValueOf(value))
	}
	in := []reflect.Value{params}
	if method.Type().NumIn() == 3 { // parameters, authentication, options; no authentication means that of the transport
		in = append(in, reflect.Zero(method.Type().In(1)))
	}
	out := method.Call(in)
	if err, failed := out[1].Interface().(error); failed {
		return nil, err
	}
	if payload := out[0].MethodByName("GetPayload"); payload.IsValid() {
		return payload.Call(nil)[0].Interface(), nil
	}
	return nil, nil
}

// do calls an operation that must succeed, and compares the answer with the package's model.
func (a *API) do(operation string, with Fields) any {
	payload, err := a.call(operation, with)
	ledger := a.stage.ledger
	ledger.Must(err == nil, "%s", a.wire.told(err))
	if model, judged := payload.(described); judged && !misdescribed[operation] {
		ledger.Check(a.departs(model) == "", "the answer is not as described: %s", a.departs(model))
	}
	ledger.Answered()
	return payload
}

// ask is do, and returns the data of the answer.
func ask[T any](a *API, operation string, with Fields) T {
	payload := a.do(operation, with)
	if whole, is := payload.(T); is {
		return whole
	}
	inner := reflect.Indirect(reflect.ValueOf(payload)).FieldByName("Data")
	var none T
	a.stage.ledger.Must(inner.IsValid() && !inner.IsZero(), "the answer has no data: %s", a.wire.body)
	got, is := inner.Interface().(T)
	a.stage.ledger.Must(is, "the data is a %s, not a %T", inner.Type(), none)
	return got
}

// create is do, and returns the id of the new record.
func (a *API) create(operation string, with Fields) string {
	return ask[*rest_model.CreateLocation](a, operation, with).ID
}

// lists returns whether an operation lists the entity.
func (a *API) lists(operation string, with Fields, id string) bool {
	list := reflect.Indirect(reflect.ValueOf(a.do(operation, with))).FieldByName("Data")
	for i := range list.Len() {
		if entity := list.Index(i).Elem().FieldByName("ID"); !entity.IsNil() && entity.Elem().String() == id {
			return true
		}
	}
	return false
}

// refused calls an operation that must be rejected in this way. If the package knows the status, it must have parsed the code.
func (a *API) refused(status int, code string, operation string, with Fields) {
	_, err := a.call(operation, with)
	ledger := a.stage.ledger
	if err == nil {
		ledger.Fault("was carried out, should be refused with %d %s", status, code)
		return
	}
	ledger.Check(a.wire.status == status, "was refused with %d, should be %d %s: %s", a.wire.status, status, code, a.wire.told(err))
	switch refusal := err.(type) {
	case rest_util.ApiErrorPayload:
		envelope := refusal.GetPayload()
		ledger.Must(envelope != nil && envelope.Error != nil, "the package read no error out of %s", a.wire.body)
		ledger.Check(envelope.Error.Code == code, "was refused with %s, should be %s", envelope.Error.Code, code)
		ledger.Check(envelope.Error.Message != "" && envelope.Error.RequestID != "", "the refusal says too little: %s", a.wire.body)
		ledger.Check(a.departs(envelope) == "", "the refusal is not as described: %s", a.departs(envelope))
	default: // a status that the description lacks: the package only has the number
		var envelope rest_model.APIErrorEnvelope
		ledger.Check(json.Unmarshal(a.wire.body, &envelope) == nil && envelope.Error != nil && envelope.Error.Code == code,
			"was refused with something else than %s: %s", code, a.wire.told(err))
	}
}

// sends returns whether the body of the last request contained this text.
func (a *API) sends(text string) bool { return bytes.Contains(a.wire.sent, []byte(text)) }

// wire records the last request and answer.
type wire struct {
	next         http.RoundTripper
	status       int
	kind         string
	sent, body   []byte
	sentWithType bool
}

func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	w.status, w.kind, w.sent, w.body = 0, "", nil, nil
	w.sentWithType = request.Header.Get("Content-Type") != ""
	if request.Body != nil {
		w.sent, _ = io.ReadAll(request.Body)
		request.Body = io.NopCloser(bytes.NewReader(w.sent))
	}
	response, err := w.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if w.body, err = io.ReadAll(response.Body); err != nil {
		return nil, err
	}
	w.status, w.kind = response.StatusCode, response.Header.Get("Content-Type")
	response.Body = io.NopCloser(bytes.NewReader(w.body))
	return response, nil
}

// told is an error of the package and its subject.
func (w *wire) told(err error) string {
	if w.status == 0 {
		return err.Error()
	}
	return fmt.Sprintf("%T %d %s", err, w.status, w.body)
}
