package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"sort"
	"strings"

	"github.com/openziti/edge-api/rest_client_api_client"
	"github.com/openziti/edge-api/rest_management_api_client"
)

// A Ledger records the result of each operation and of each step of the library.
type Ledger struct {
	answered map[string]int      // successes, by name
	faults   map[string][]string // faults, by name
	last     string              // the last call: a fault in its answer is recorded for it
}

func NewLedger() *Ledger {
	return &Ledger{answered: map[string]int{}, faults: map[string][]string{}}
}

// stop ends a story.
type stop struct{}

// Tell runs a story to its end, or until it fails; a failure is a fault of the last call.
func (l *Ledger) Tell(name string, story func()) {
	l.last = name
	defer func() {
		switch cause := recover().(type) {
		case nil, stop:
		default: // the generated code panics on an unknown success status
			l.Fault("%s: %v", name, cause)
		}
	}()
	story()
}

// Call records that the operation is called now.
func (l *Ledger) Call(name string) { l.last = name }

// Answered records that the last operation succeeded.
func (l *Ledger) Answered() { l.answered[l.last]++ }

// Fault records a fault of the last call.
func (l *Ledger) Fault(format string, of ...any) {
	l.faults[l.last] = append(l.faults[l.last], fmt.Sprintf(format, of...))
}

// Check records a fault if the condition does not hold.
func (l *Ledger) Check(holds bool, format string, of ...any) {
	if !holds {
		l.Fault(format, of...)
	}
}

// Must ends the story if the condition does not hold.
func (l *Ledger) Must(holds bool, format string, of ...any) {
	if !holds {
		l.Fault(format, of...)
		panic(stop{})
	}
}

// Write prints a line for each credential operation and for each step of the library, and the operations that were not called.
func (l *Ledger) Write(out io.Writer) {
	operations := append(credentialOperations("management", rest_management_api_client.ZitiEdgeManagement{}),
		credentialOperations("client", rest_client_api_client.ZitiEdgeClient{})...)
	undriven, lines := []string{}, map[string]any{}
	for _, name := range operations {
		lines[name] = nil
		if l.answered[name] == 0 {
			undriven = append(undriven, name)
			lines[name] = "was not driven"
		}
	}
	for name := range l.answered {
		if strings.HasPrefix(name, "sdk-golang ") {
			lines[name] = nil
		}
	}
	for name, faults := range l.faults {
		lines[name] = strings.Join(faults, "; ")
	}
	names := make([]string, 0, len(lines))
	for name := range lines {
		names = append(names, name)
	}
	sort.Strings(names)
	encoder := json.NewEncoder(out)
	for _, name := range names {
		_ = encoder.Encode(map[string]any{"name": name, "failure": lines[name]})
	}
	_ = encoder.Encode(map[string]any{"undriven": undriven})
}

// Subjects of the description that are not about credentials.
var elsewhere = regexp.MustCompile(`^(Config|Database|EdgeRouterPolicy|PostureChecks|RoleAttributes|Service|ServiceEdgeRouterPolicy|ServicePolicy|Session|Terminator)$`)

// Subjects that are partly about credentials, with those operations.
var mixed, theirs = regexp.MustCompile(`^(Identity|EdgeRouter|Router)$`), regexp.MustCompile(`Authenticat|Enroll|Mfa|^Enable|^Disable`)

// credentialOperations lists the operations of a generated client, which has a member for each subject.
func credentialOperations(interfaceName string, client any) []string {
	names, of := []string{}, reflect.TypeOf(client)
	for i := range of.NumField() {
		subject := of.Field(i)
		if subject.Type.Kind() != reflect.Interface || subject.Name == "Transport" || elsewhere.MatchString(subject.Name) {
			continue
		}
		for j := range subject.Type.NumMethod() {
			operation := subject.Type.Method(j).Name
			if operation == "SetTransport" || mixed.MatchString(subject.Name) && !theirs.MatchString(operation) {
				continue
			}
			names = append(names, interfaceName+" "+subject.Name+"."+operation)
		}
	}
	return names
}
