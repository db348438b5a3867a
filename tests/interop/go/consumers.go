package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const (
	orderlyPause = 100 * time.Millisecond
	// The client does not tell when it has recorded a listener's answer. At its end it commits only recorded answers, and
	// the next regular commit would be 15 s after its start.
	answersSettle = 300 * time.Millisecond
)

type member struct{ leave, left chan struct{} }

// consumers are the verbs that join a group. A member prints every message before it answers.
type consumers struct {
	namesrv primitive.NsResolver
	mutex   sync.Mutex
	running map[int64]member
}

func newConsumers(namesrv primitive.NsResolver) *consumers {
	return &consumers{namesrv: namesrv, running: map[int64]member{}}
}

// consume: group, topic, expression, orderly, broadcasting, instance: "started", then "message" events with "failed".
// A message with the tag failTag is answered with failure while its reconsume times are below failBelow;
// maxReconsumeTimes and retryDelayLevel are the client's settings for what happens then.
func (cs *consumers) consume(c *call) error {
	instance := c.Instance
	if instance == "" {
		instance = fmt.Sprintf("witness-%d", c.ID)
	}
	options := []consumer.Option{
		consumer.WithNsResolver(cs.namesrv), consumer.WithGroupName(c.Group), consumer.WithInstance(instance),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumerOrder(c.Orderly),
		consumer.WithSuspendCurrentQueueTimeMillis(orderlyPause),
	}
	if c.Broadcasting {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if c.MaxReconsumeTimes != nil {
		options = append(options, consumer.WithMaxReconsumeTimes(*c.MaxReconsumeTimes))
	}
	if keys.AccessKey != "" {
		options = append(options, consumer.WithCredentials(keys))
	}
	joining, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return err
	}
	tags := consumer.MessageSelector{Type: consumer.TAG, Expression: c.Expression}
	if c.Expression == "" {
		tags.Expression = "*"
	}
	if err := joining.Subscribe(c.Topic, tags, c.consumed); err != nil {
		return err
	}
	m := member{make(chan struct{}), make(chan struct{})}
	cs.mutex.Lock()
	cs.running[c.ID] = m
	cs.mutex.Unlock()
	defer close(m.left)
	if err := joining.Start(); err != nil {
		return err
	}
	c.emit("started", fields{"clientId": instance})
	<-m.leave
	time.Sleep(answersSettle)
	return joining.Shutdown()
}

func (c *call) consumed(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	failed := false
	for _, m := range messages {
		failed = c.message(m) || failed
	}
	if !failed {
		return consumer.ConsumeSuccess, nil
	}
	if c.Orderly {
		return consumer.SuspendCurrentQueueAMoment, nil
	}
	if retry, ok := primitive.GetConcurrentlyCtx(ctx); ok {
		retry.DelayLevelWhenNextConsume = c.RetryDelayLevel
	}
	return consumer.ConsumeRetryLater, nil
}

// message prints one delivery and says whether the listener shall fail on it.
func (c *call) message(m *primitive.MessageExt) bool {
	failBelow := int32(math.MaxInt32)
	if c.FailBelow != nil {
		failBelow = *c.FailBelow
	}
	failed := c.FailTag != nil && m.GetTags() == *c.FailTag && m.ReconsumeTimes < failBelow
	c.emit("message", fields{
		"topic": m.Topic, "msgId": m.MsgId, "offsetMsgId": m.OffsetMsgId, "tags": orNull(m.GetTags()),
		"keys": orNull(m.GetKeys()), "queueId": m.Queue.QueueId, "queueOffset": m.QueueOffset,
		"logOffset": m.CommitLogOffset, "storeSize": m.StoreSize, "body": m.Body, "bodyCrc": m.BodyCRC,
		"reconsumeTimes": m.ReconsumeTimes, "properties": m.GetProperties(), "flag": m.Flag, "sysFlag": m.SysFlag,
		"bornTimestamp": m.BornTimestamp, "storeTimestamp": m.StoreTimestamp, "bornHost": m.BornHost,
		"storeHost": m.StoreHost, "preparedTransactionOffset": m.PreparedTransactionOffset, "failed": failed,
	})
	return failed
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// stop: call: the id of the consume call to end.
func (cs *consumers) stop(c *call) error {
	cs.mutex.Lock()
	m, found := cs.running[c.Call]
	delete(cs.running, c.Call)
	cs.mutex.Unlock()
	if !found {
		return fmt.Errorf("no call %d to stop", c.Call)
	}
	close(m.leave)
	<-m.left
	return nil
}

func (cs *consumers) stopAll() {
	cs.mutex.Lock()
	defer cs.mutex.Unlock()
	for _, m := range cs.running {
		close(m.leave)
		<-m.left
	}
}
