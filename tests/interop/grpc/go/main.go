// Plays one scene with Apache's Go client: ENDPOINTS SCENE TOPIC GROUP. Prints a line "got BODY ATTEMPT" for each
// message that it consumed.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

var endpoints, topic, group string

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func config() *rmq.Config {
	return &rmq.Config{Endpoint: endpoints, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

func told(message *rmq.MessageView) {
	fmt.Println("got", string(message.GetBody()), message.GetDeliveryAttempt())
}

func producer(options ...rmq.ProducerOption) rmq.Producer {
	made, err := rmq.NewProducer(config(), append(options, rmq.WithTopics(topic))...)
	must(err)
	must(made.Start())
	return made
}

func message(body string) *rmq.Message {
	return &rmq.Message{Topic: topic, Body: []byte(body)}
}

func send(prepare func(*rmq.Message), bodies ...string) {
	running := producer()
	for _, body := range bodies {
		made := message(body)
		made.SetKeys("k-" + body)
		made.AddProperty("p", body)
		prepare(made)
		_, err := running.Send(context.TODO(), made)
		must(err)
	}
	must(running.GracefulStop())
}

func tagged(tag string) func(*rmq.Message) {
	return func(made *rmq.Message) { made.SetTag(tag) }
}

func consumer(expression *rmq.FilterExpression) rmq.SimpleConsumer {
	made, err := rmq.NewSimpleConsumer(config(), rmq.WithSimpleAwaitDuration(10*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: expression}))
	must(err)
	must(made.Start())
	return made
}

func receive(count int, expression *rmq.FilterExpression) {
	consumer := consumer(expression)
	for count > 0 {
		messages, err := consumer.Receive(context.TODO(), 16, 15*time.Second)
		if err != nil {
			continue // no message yet
		}
		for _, each := range messages {
			told(each)
			must(consumer.Ack(context.TODO(), each))
			count--
		}
	}
	must(consumer.GracefulStop())
}

func push(count int32, failsFirst bool) {
	var got atomic.Int32
	consumer, err := rmq.NewPushConsumer(config(), rmq.WithPushAwaitDuration(10*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: func(each *rmq.MessageView) rmq.ConsumerResult {
			told(each)
			if got.Add(1) == 1 && failsFirst {
				return rmq.FAILURE
			}
			return rmq.SUCCESS
		}}))
	must(err)
	must(consumer.Start())
	for got.Load() < count {
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second) // the last acknowledgement is on its way
	must(consumer.GracefulStop())
}

func checker(answer rmq.TransactionResolution, asked *atomic.Bool) rmq.ProducerOption {
	return rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: func(*rmq.MessageView) rmq.TransactionResolution {
		asked.Store(true)
		return answer
	}})
}

func transaction() {
	var asked atomic.Bool
	running := producer(checker(rmq.UNKNOWN, &asked))
	for _, body := range []string{"rolled back", "committed"} {
		begun := running.BeginTransaction()
		_, err := running.SendWithTransaction(context.TODO(), message(body), begun)
		must(err)
		if body == "committed" {
			must(begun.Commit())
		} else {
			must(begun.RollBack())
		}
	}
	must(running.GracefulStop())
}

func check() {
	var asked atomic.Bool
	running := producer(checker(rmq.COMMIT, &asked))
	_, err := running.SendWithTransaction(context.TODO(), message("asked"), running.BeginTransaction())
	must(err)
	for !asked.Load() {
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second) // its answer is on its way
	must(running.GracefulStop())
}

// Sends numbers until it is killed; says which of them were taken.
func sendOn() {
	running := producer()
	fmt.Println("started")
	for number := 0; ; number++ {
		if _, err := running.Send(context.TODO(), message(fmt.Sprint(number))); err != nil {
			fmt.Println("failed", number, err)
		} else {
			fmt.Println("sent", number)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func receiveOn() {
	consumer := consumer(rmq.SUB_ALL)
	fmt.Println("started")
	for {
		messages, err := consumer.Receive(context.TODO(), 16, 15*time.Second)
		if err != nil {
			fmt.Println("failed", err)
			time.Sleep(100 * time.Millisecond)
		}
		for _, each := range messages {
			told(each)
			if err := consumer.Ack(context.TODO(), each); err != nil {
				fmt.Println("failed", err)
			}
		}
	}
}

func main() {
	endpoints, topic, group = os.Args[1], os.Args[3], os.Args[4]
	os.Setenv("mq.consoleAppender.enabled", "false")
	rmq.ResetLogger()
	all := rmq.SUB_ALL
	switch os.Args[2] {
	case "simple":
		send(tagged("A"), "one", "two", "three")
		receive(3, all)
	case "tags":
		send(tagged("A"), "a")
		send(tagged("B"), "b")
		receive(1, rmq.NewFilterExpression("B"))
	case "sql":
		send(tagged("A"), "a")
		send(tagged("B"), "b")
		receive(1, rmq.NewFilterExpressionWithType("TAGS = 'B'", rmq.SQL92))
	case "push":
		send(tagged("A"), "one", "two", "three")
		push(3, false)
	case "retry":
		send(tagged("A"), "again")
		push(2, true)
	case "fifo":
		send(func(made *rmq.Message) { made.SetMessageGroup("g") }, "0", "1", "2", "3", "4", "5")
		push(6, false)
	case "delay":
		send(func(made *rmq.Message) { made.SetDelayTimestamp(time.Now().Add(2 * time.Second)) }, "late")
		receive(1, all)
	case "transaction":
		transaction()
		receive(1, all)
	case "check":
		check()
		receive(1, all)
	case "send-on":
		sendOn()
	case "receive-on":
		receiveOn()
	default:
		must(fmt.Errorf("no scene %s", os.Args[2]))
	}
}
