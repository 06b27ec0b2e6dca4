// Every credential operation of both interfaces, through the packages that were generated from their description.
//
//	usage: credentials HOST:PORT DIRECTORY, with the name and the password of an administrator
//	in OVERKEEP_USER and OVERKEEP_PASSWORD
//
// The stories (one file per subject) use only the generated packages and, in sdk.go, the Go library above them. A ledger records
// the answers and faults of each operation. It is printed at the end as one JSON object per line:
// {"name": ..., "failure": ... or null}, and last {"undriven": [operations without an answer]}. The list of operations
// is read from the packages, so that a new one is undriven until a story calls it.
// The directory is for files of the library. The caller limits the run time.
package main

import (
	"fmt"
	"os"
)

// A story is one sequence of calls; it stops at the first answer that makes it impossible to continue.
type story struct {
	name string
	tell func(*Stage)
}

var stories = []story{
	{"information", information},
	{"sessions", sessions},
	{"policies", policies},
	{"authorities", authorities},
	{"signers", signers},
	{"enrollments", enrollments},
	{"routers", routers},
	{"authenticators", authenticators},
	{"extensions", extensions},
	{"factors", factors},
	{"sdk-golang", library},
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: credentials HOST:PORT DIRECTORY")
		os.Exit(2)
	}
	ledger := NewLedger()
	stage, err := NewStage(os.Args[1], os.Args[2], ledger, os.Getenv("OVERKEEP_USER"), os.Getenv("OVERKEEP_PASSWORD"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, story := range stories {
		ledger.Tell(story.name, func() { story.tell(stage) })
	}
	ledger.Write(os.Stdout)
}
