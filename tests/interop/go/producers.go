package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

type outgoing struct {
	Body        []byte            `json:"body"`
	Tags        *string           `json:"tags"`
	Keys        *string           `json:"keys"`
	Properties  map[string]string `json:"properties"`
	Flag        int32             `json:"flag"`
	DelayLevel  int               `json:"delayLevel"`
	QueueID     *int              `json:"queueId"`
	ShardingKey *string           `json:"shardingKey"`
}

func (o outgoing) message(topic string) *primitive.Message {
	m := primitive.NewMessage(topic, o.Body)
	m.Flag = o.Flag
	m.WithProperties(o.Properties)
	if o.Tags != nil {
		m.WithTag(*o.Tags)
	}
	if o.Keys != nil {
		m.WithKeys(strings.Split(*o.Keys, " "))
	}
	if o.DelayLevel != 0 {
		m.WithDelayTimeLevel(o.DelayLevel)
	}
	if o.QueueID != nil {
		m.Queue = &primitive.MessageQueue{QueueId: *o.QueueID} // for chosenQueue
	}
	if o.ShardingKey != nil {
		m.WithShardingKey(*o.ShardingKey)
	}
	return m
}

// chosenQueue selects by the message's queue, by its sharding key, or lets the client's own round robin choose.
type chosenQueue struct{ otherwise producer.QueueSelector }

func (s chosenQueue) Select(m *primitive.Message, queues []*primitive.MessageQueue, last string) *primitive.MessageQueue {
	if m.Queue != nil {
		for _, queue := range queues {
			if queue.QueueId == m.Queue.QueueId {
				return queue
			}
		}
		return nil
	}
	if key := m.GetShardingKey(); key != "" {
		hash := fnv.New32a()
		hash.Write([]byte(key))
		return queues[hash.Sum32()%uint32(len(queues))]
	}
	return s.otherwise.Select(m, queues, last)
}

// producers are the verbs that send: one producer, without the client's own retries, so that a refused send is seen.
type producers struct{ producer rocketmq.Producer }

func newProducers(namesrv primitive.NsResolver) *producers {
	options := []producer.Option{
		producer.WithNsResolver(namesrv), producer.WithGroupName("WitnessProducerGroup"),
		producer.WithInstanceName("witness-producer"), producer.WithRetry(0),
		producer.WithQueueSelector(chosenQueue{producer.NewRoundRobinQueueSelector()}),
	}
	if keys.AccessKey != "" {
		options = append(options, producer.WithCredentials(keys))
	}
	p, err := rocketmq.NewProducer(options...)
	if err != nil {
		panic(err)
	}
	if err := p.Start(); err != nil {
		panic(err)
	}
	return &producers{p}
}

func (p *producers) stop() { p.producer.Shutdown() }

// send: topic, messages, mode (sync, async, oneway): "sent" or "refused" with the message's index; nothing for oneway.
func (p *producers) send(c *call) error {
	var pending sync.WaitGroup
	for i, o := range c.Messages {
		m := o.message(c.Topic)
		switch c.Mode {
		case "sync":
			result, err := p.producer.SendSync(context.Background(), m)
			c.answered(i, result, err)
		case "oneway":
			if err := p.producer.SendOneWay(context.Background(), m); err != nil {
				return err
			}
		case "async":
			pending.Add(1)
			answered := func(_ context.Context, result *primitive.SendResult, err error) {
				c.answered(i, result, err)
				pending.Done()
			}
			if err := p.producer.SendAsync(context.Background(), answered, m); err != nil {
				answered(nil, nil, err)
			}
		default:
			return fmt.Errorf("no such mode: %s", c.Mode)
		}
	}
	pending.Wait()
	return nil
}

// batch: topic, messages: all in one batch, one "sent" with the ids joined by commas.
func (p *producers) batch(c *call) error {
	var all []*primitive.Message
	for _, o := range c.Messages {
		all = append(all, o.message(c.Topic))
	}
	result, err := p.producer.SendSync(context.Background(), all...)
	if err == nil {
		c.answered(0, result, nil)
	}
	return err
}

var statuses = map[primitive.SendStatus]string{
	primitive.SendOK: "SEND_OK", primitive.SendFlushDiskTimeout: "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT", primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
}

func (c *call) answered(index int, r *primitive.SendResult, err error) {
	if err != nil {
		c.emit("refused", fields{"index": index, "code": code(err), "error": err.Error()})
		return
	}
	c.emit("sent", fields{
		"index": index, "status": statuses[r.Status], "msgId": r.MsgID, "offsetMsgId": r.OffsetMsgID,
		"queueId": r.MessageQueue.QueueId, "brokerName": r.MessageQueue.BrokerName, "queueOffset": r.QueueOffset,
	})
}
