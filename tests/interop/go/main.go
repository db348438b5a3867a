// Command witness is the real Go client, driven by a test: one JSON object a line in (id, verb, arguments), JSON objects a
// line out (id, event, ...), as java/Witness.java has them. Every call ends with one event "done" or "failed"; a
// consumer's call ends when it is stopped. At the end of standard input all consumers leave and the program ends.
// Argument: the nameserver.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const maxLineBytes = 64 << 20 // a batch of the largest bodies, in base64

type call struct {
	ID       int64      `json:"id"`
	Verb     string     `json:"verb"`
	Topic    string     `json:"topic"`
	Mode     string     `json:"mode"`
	Messages []outgoing `json:"messages"`

	Group             string  `json:"group"`
	Expression        string  `json:"expression"`
	Orderly           bool    `json:"orderly"`
	Broadcasting      bool    `json:"broadcasting"`
	Instance          string  `json:"instance"`
	FailTag           *string `json:"failTag"`
	FailBelow         *int32  `json:"failBelow"`
	MaxReconsumeTimes *int32  `json:"maxReconsumeTimes"`
	RetryDelayLevel   int     `json:"retryDelayLevel"`
	Call              int64   `json:"call"`
}

type fields map[string]any

var events sync.Mutex // one line at a time on standard output

// keys sign the requests, if the environment has any.
var keys = primitive.Credentials{AccessKey: os.Getenv("WITNESS_ACCESS_KEY"), SecretKey: os.Getenv("WITNESS_SECRET_KEY")}

func (c *call) emit(event string, more fields) {
	line := fields{"id": c.ID, "event": event}
	for name, value := range more {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	events.Lock()
	defer events.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

// code is the broker's response code, which is only in the text of the client's error, or -1 if there is none.
func code(err error) int {
	var found int
	if _, none := fmt.Sscanf(err.Error(), "CODE: %d", &found); none != nil {
		return -1
	}
	return found
}

func main() {
	rlog.SetLogLevel("warn")
	namesrv := primitive.NewPassthroughResolver([]string{os.Args[1]})
	producers, consumers := newProducers(namesrv), newConsumers(namesrv)
	verbs := map[string]func(*call) error{
		"send": producers.send, "batch": producers.batch, "consume": consumers.consume, "stop": consumers.stop,
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		c := new(call)
		if err := json.Unmarshal(lines.Bytes(), c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		go func() {
			err := fmt.Errorf("no such verb: %s", c.Verb)
			if verb := verbs[c.Verb]; verb != nil {
				err = verb(c)
			}
			if err != nil {
				c.emit("failed", fields{"code": code(err), "error": err.Error()})
				return
			}
			c.emit("done", nil)
		}()
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	consumers.stopAll()
	producers.stop()
}
