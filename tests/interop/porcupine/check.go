// Checks with porcupine whether a history of one queue is linearizable. Reads JSON lines from standard input and writes
// one verdict to standard output. With an argument, an illegal history is drawn into that file, as HTML.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const timeout = 5 * time.Minute

// Operation is one line. A value is sent once; offsets are those of the queue. The outcome of a send is "stored" at
// Offset, "refused" (the value never appears), or "unknown" (it may be stored already, or later). A "read" found Values
// from Offset on; without Values the queue ends there.
type Operation struct {
	Client int    `json:"client"`
	Kind   string `json:"kind"`
	Values []int  `json:"values"`
	Offset int    `json:"offset"`
	CallNs int64  `json:"call_ns"`
	// The time of the answer. Ignored for "unknown".
	ReturnNs int64 `json:"return_ns"`
}

// The state is the queue's values by offset.
var queue = porcupine.Model{
	Init: func() any { return []int(nil) },
	Step: func(state, input, _ any) (bool, any) {
		values, operation := state.([]int), input.(Operation)
		start, end := operation.Offset, operation.Offset+len(operation.Values)
		switch operation.Kind {
		case "stored":
			return start == len(values), append(values[:len(values):len(values)], operation.Values...)
		case "read":
			if start == end {
				return start >= len(values), values
			}
			return end <= len(values) && slices.Equal(values[start:end], operation.Values), values
		}
		return true, values // refused
	},
	Equal: func(one, other any) bool { return slices.Equal(one.([]int), other.([]int)) },
	DescribeOperation: func(input, _ any) string {
		operation := input.(Operation)
		return fmt.Sprintf("%s %d at %d", operation.Kind, operation.Values, operation.Offset)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%d values", len(state.([]int))) },
}

// In general an operation with an unknown outcome needs a guess. Here values are unique: an unknown value that was read
// was stored at that offset, at some time after its call. One that was never read may have been stored after everything
// else, and is left out.
func known(lines []Operation) []porcupine.Operation {
	seen := map[int]int{}
	for _, line := range lines {
		if line.Kind == "read" {
			for i, value := range line.Values {
				seen[value] = line.Offset + i
			}
		}
	}
	var found []porcupine.Operation
	for _, line := range lines {
		end := line.ReturnNs
		if line.Kind == "unknown" {
			offset, isSeen := seen[line.Values[0]]
			if !isSeen {
				continue
			}
			line.Kind, line.Offset, end = "stored", offset, math.MaxInt64
		}
		found = append(found, porcupine.Operation{ClientId: line.Client, Input: line, Call: line.CallNs, Return: end})
	}
	return found
}

func main() {
	var lines []Operation
	for decoder := json.NewDecoder(bufio.NewReader(os.Stdin)); decoder.More(); {
		var line Operation
		if err := decoder.Decode(&line); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		lines = append(lines, line)
	}
	operations := known(lines)
	result := porcupine.CheckOperationsTimeout(queue, operations, timeout)
	if result == porcupine.Illegal && len(os.Args) > 1 {
		_, info := porcupine.CheckOperationsVerbose(queue, operations, timeout)
		if err := porcupine.VisualizePath(queue, info, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"result": result, "operations": len(operations)})
}
