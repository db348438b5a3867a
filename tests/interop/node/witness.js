'use strict';

/*
 * The real Node client (ali-ons), driven by a test: one JSON object a line in (id, verb, arguments), JSON objects a line out
 * (id, event, ...), as java/Witness.java has them. Every call ends with one event "done" or "failed"; a consumer's call ends
 * when it is stopped. At the end of standard input all consumers leave their groups and the program ends. Arguments: the
 * nameserver, and any word for a client with its own intervals. The client has no oneway sends, no batches and no orderly consumer.
 */

const readline = require('node:readline');
const { Consumer, Message, Producer } = require('ali-ons');

const [ nameSrv, asItComes ] = process.argv.slice(2);
const TIMER_INTERVAL_MS = 1000; // the client's own: 30 s for routes and heartbeats, 10 s for sharing queues
const logger = { info() {}, debug() {}, warn: console.error, error: console.error }; // standard output is for events
const options = {
  nameSrv, logger,
  httpclient: {}, // wanted, but only to look a nameserver up
  // without any, the client could not sign, and it always does
  accessKeyId: process.env.WITNESS_ACCESS_KEY || 'none', accessKeySecret: process.env.WITNESS_SECRET_KEY || 'none',
  ...asItComes ? {} : {
    pollNameServerInteval: TIMER_INTERVAL_MS, // the client's spelling
    heartbeatBrokerInterval: TIMER_INTERVAL_MS,
    rebalanceInterval: TIMER_INTERVAL_MS,
  },
};

function emit(call, event, fields) {
  process.stdout.write(JSON.stringify({ id: call.id, event, ...fields }) + '\n');
}

/** The broker's response code, or -1 where the error has none. */
function failure(error) {
  return { code: Number.isInteger(error.code) ? error.code : -1, error: `${error.name}: ${error.message}` };
}

const producer = new Producer({ ...options, producerGroup: 'WitnessProducerGroup', instanceName: 'witness-producer' });
producer.on('error', error => console.error(error));

async function sendOne(call, index) {
  const { body, tags, keys, properties, flag, delayLevel } = call.messages[index];
  const message = new Message(call.topic, tags, Buffer.from(body, 'base64'));
  if (tags === null) delete message.properties.TAGS; // or it is sent as the text "null"
  if (keys !== null) message.keys = keys.split(' ');
  if (delayLevel) message.delayTimeLevel = delayLevel;
  Object.assign(message.properties, properties);
  message.flag = flag;
  try {
    const result = await producer.send(message);
    emit(call, 'sent', {
      index, status: result.sendStatus, msgId: result.msgId, offsetMsgId: result.msgId,
      queueId: Number(result.messageQueue.queueId), brokerName: result.messageQueue.brokerName, queueOffset: result.queueOffset,
    });
  } catch (error) {
    emit(call, 'refused', { index, ...failure(error) });
  }
}

/** topic, messages, mode (sync: one after the other, async: all at once): "sent" or "refused" with the message's index. */
async function send(call) {
  await producer.ready();
  if (call.mode === 'async') await Promise.all(call.messages.map((_, index) => sendOne(call, index)));
  else for (const index of call.messages.keys()) await sendOne(call, index);
}

const running = new Map(); // consumers, and what ends their calls, by call

/**
 * group, topic, expression, broadcasting, instance: "started", then "message" events with "failed". A message with the tag
 * failTag is answered with failure while its reconsumeTimes is below failBelow; maxReconsumeTimes is the client's setting.
 */
async function consume(call) {
  const consumer = new Consumer({
    ...options,
    consumerGroup: call.group,
    instanceName: call.instance || `${process.pid}-witness-${call.id}`,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    isBroadcast: Boolean(call.broadcasting),
    persistent: true,
    ...call.maxReconsumeTimes === undefined ? {} : { maxReconsumeTimes: call.maxReconsumeTimes },
  });
  consumer.on('error', error => console.error(error));
  await consumer.ready();
  consumer.subscribe(call.topic, call.expression || '*', async message => {
    const failed = call.failTag !== undefined && message.tags === call.failTag && message.reconsumeTimes < (call.failBelow ?? Infinity);
    emit(call, 'message', { ...shown(message), failed });
    if (failed) throw new Error('failed as told'); // ACTION_RETRY is lost on the way from a retry topic's listener
  });
  emit(call, 'started', { clientId: consumer.clientId });
  await new Promise(end => running.set(call.id, { consumer, end }));
}

function shown(message) {
  return {
    topic: message.topic, msgId: message.properties.UNIQ_KEY ?? message.msgId, offsetMsgId: message.msgId,
    tags: message.tags ?? null, keys: message.keys ?? null, queueId: message.queueId, queueOffset: Number(message.queueOffset),
    logOffset: Number(message.commitLogOffset), storeSize: message.storeSize, body: message.body.toString('base64'),
    bodyCrc: message.bodyCRC, reconsumeTimes: message.reconsumeTimes,
    properties: Object.fromEntries(Object.entries(message.properties).filter(([ name, value ]) => name && value !== null)),
    flag: message.flag, sysFlag: message.sysFlag, bornTimestamp: Number(message.bornTimestamp),
    storeTimestamp: Number(message.storeTimestamp), bornHost: message.bornHost, storeHost: message.storeHost,
    preparedTransactionOffset: Number(message.preparedTransactionOffset),
  };
}

/** call: the id of the consume call to end. */
async function stop({ call: id }) {
  const { consumer, end } = running.get(id);
  running.delete(id);
  await consumer.close();
  end();
}

const verbs = { send, consume, stop };

async function run(call) {
  try {
    await verbs[call.verb](call);
    emit(call, 'done', {});
  } catch (error) {
    console.error(error);
    emit(call, 'failed', failure(error));
  }
}

const calls = readline.createInterface({ input: process.stdin });
calls.on('line', line => run(JSON.parse(line)));
calls.on('close', async () => {
  await Promise.all([ ...running.keys() ].map(id => stop({ call: id })));
  await producer.close();
  process.exit(0);
});
