// Plays one scene with Apache's Node client: ENDPOINTS SCENE TOPIC GROUP. Prints a line "got BODY ATTEMPT" for each
// message that it consumed.
'use strict';

const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');

const [endpoints, scene, topic, group] = process.argv.slice(2);
const [UNSPECIFIED, COMMIT] = [0, 1];
const SQL = 2;
const quiet = { info() {}, warn() {}, error: console.error, debug() {} };
const common = { endpoints, namespace: '', logger: quiet };
const pause = ms => new Promise(done => setTimeout(done, ms));

function told(message) {
  console.log('got', message.body.toString(), message.deliveryAttempt);
}

async function producer(checker) {
  const made = new Producer({ ...common, topic, checker });
  await made.startup();
  return made;
}

async function send(bodies, fields) {
  const running = await producer();
  for (const body of bodies) {
    await running.send({
      topic, body: Buffer.from(body), keys: ['k-' + body], properties: new Map([['p', body]]), ...fields,
    });
  }
  await running.shutdown();
}

async function simpleConsumer(expression) {
  const made = new SimpleConsumer({
    ...common, consumerGroup: group, subscriptions: new Map([[topic, expression]]), awaitDuration: 10000,
  });
  await made.startup();
  return made;
}

async function receive(count, expression = FilterExpression.SUB_ALL) {
  const consumer = await simpleConsumer(expression);
  while (count > 0) {
    for (const message of await consumer.receive(16, 15000)) {
      told(message);
      await consumer.ack(message);
      count--;
    }
  }
  await consumer.shutdown();
}

async function push(count, failsFirst = false) {
  let got = 0;
  const consume = async message => {
    told(message);
    got++;
    return failsFirst && got === 1 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
  };
  const consumer = new PushConsumer({
    ...common, consumerGroup: group, subscriptions: new Map([[topic, FilterExpression.SUB_ALL]]),
    messageListener: { consume },
  });
  await consumer.startup();
  while (got < count) await pause(50);
  await pause(1000); // the last acknowledgement is on its way
  await consumer.shutdown();
}

async function transaction() {
  const running = await producer({ check: async () => UNSPECIFIED });
  for (const body of ['rolled back', 'committed']) {
    const begun = running.beginTransaction();
    await running.send({ topic, body: Buffer.from(body) }, begun);
    await (body === 'committed' ? begun.commit() : begun.rollback());
  }
  await running.shutdown();
}

async function check() {
  let asked = false;
  const running = await producer({
    check: async () => {
      asked = true;
      return COMMIT;
    },
  });
  await running.send({ topic, body: Buffer.from('asked') }, running.beginTransaction());
  while (!asked) await pause(50);
  await pause(1000); // its answer is on its way
  await running.shutdown();
}

// Sends numbers until it is killed; says which of them were taken.
async function sendOn() {
  const running = await producer();
  console.log('started');
  for (let number = 0; ; number++) {
    await running.send({ topic, body: Buffer.from(String(number)) })
      .then(() => console.log('sent', number), error => console.log('failed', number, String(error)));
    await pause(20);
  }
}

async function receiveOn() {
  const consumer = await simpleConsumer(FilterExpression.SUB_ALL);
  console.log('started');
  for (;;) {
    try {
      for (const message of await consumer.receive(16, 15000)) {
        told(message);
        await consumer.ack(message);
      }
    } catch (error) {
      console.log('failed', String(error));
      await pause(100);
    }
  }
}

const SCENES = {
  simple: async () => { await send(['one', 'two', 'three'], { tag: 'A' }); await receive(3); },
  tags: async () => { await send(['a'], { tag: 'A' }); await send(['b'], { tag: 'B' }); await receive(1, 'B'); },
  sql: async () => {
    await send(['a'], { tag: 'A' });
    await send(['b'], { tag: 'B' });
    await receive(1, new FilterExpression("TAGS = 'B'", SQL));
  },
  push: async () => { await send(['one', 'two', 'three'], { tag: 'A' }); await push(3); },
  retry: async () => { await send(['again'], { tag: 'A' }); await push(2, true); },
  fifo: async () => { await send([...'012345'], { messageGroup: 'g' }); await push(6); },
  delay: async () => { await send(['late'], { deliveryTimestamp: new Date(Date.now() + 2000) }); await receive(1); },
  transaction: async () => { await transaction(); await receive(1); },
  check: async () => { await check(); await receive(1); },
  'send-on': sendOn,
  'receive-on': receiveOn,
};

SCENES[scene]().then(() => process.exit(0), error => {
  console.error(error);
  process.exit(1);
});
