// Plays one scene with Apache's Rust client: ENDPOINTS SCENE TOPIC GROUP. Prints a line "got BODY ATTEMPT" for each
// message that it consumed. The client has no push consumer: in order, too, a simple one receives.
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageBuilder;
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use tokio::sync::Notify;

type Done = Result<(), ClientError>;

struct Scene {
    endpoints: String,
    topic: String,
    group: String,
}

impl Scene {
    fn client(&self) -> ClientOption {
        let mut client = ClientOption::default();
        client.set_access_url(self.endpoints.as_str());
        client
    }

    fn options(&self) -> ProducerOption {
        let mut options = ProducerOption::default();
        options.set_topics(vec![self.topic.as_str()]);
        options
    }

    fn message(&self, body: &str) -> MessageBuilder {
        MessageBuilder::builder()
            .set_topic(self.topic.as_str())
            .set_body(body.as_bytes().to_vec())
            .set_keys(vec![format!("k-{body}")])
    }

    async fn send(&self, bodies: &[&str], made: impl Fn(MessageBuilder) -> MessageBuilder) -> Done {
        let mut producer = Producer::new(self.options(), self.client())?;
        producer.start().await?;
        for body in bodies {
            producer.send(made(self.message(body)).build()?).await?;
        }
        producer.shutdown().await
    }

    async fn receive(&self, mut count: usize, kind: FilterType, expression: &str) -> Done {
        let mut options = SimpleConsumerOption::default();
        options.set_topics(vec![self.topic.as_str()]);
        options.set_consumer_group(self.group.as_str());
        let mut client = self.client();
        client.set_long_polling_timeout(Duration::from_secs(10));
        let mut consumer = SimpleConsumer::new(options, client)?;
        consumer.start().await?;
        let wanted = FilterExpression::new(kind, expression);
        while count > 0 {
            for message in consumer.receive(self.topic.as_str(), &wanted).await? {
                println!(
                    "got {} {}",
                    String::from_utf8_lossy(message.body()),
                    message.delivery_attempt()
                );
                consumer.ack(&message).await?;
                count -= 1;
            }
        }
        consumer.shutdown().await
    }

    async fn transactional(
        &self,
        answer: fn() -> TransactionResolution,
        asked: Arc<Notify>,
    ) -> Result<Producer, ClientError> {
        let check = move |_, _| {
            asked.notify_one();
            answer()
        };
        let mut producer = Producer::new_transaction_producer(self.options(), self.client(), Box::new(check))?;
        producer.start().await?;
        Ok(producer)
    }

    async fn transactions(&self) -> Done {
        let producer = self
            .transactional(|| TransactionResolution::UNKNOWN, Arc::default())
            .await?;
        let half = |body| self.message(body).enable_transaction().build();
        producer
            .send_transaction_message(half("rolled back")?)
            .await?
            .rollback()
            .await?;
        producer
            .send_transaction_message(half("committed")?)
            .await?
            .commit()
            .await?;
        producer.shutdown().await
    }

    async fn check(&self) -> Done {
        let asked = Arc::<Notify>::default();
        let producer = self
            .transactional(|| TransactionResolution::COMMIT, asked.clone())
            .await?;
        producer
            .send_transaction_message(self.message("asked").enable_transaction().build()?)
            .await?;
        asked.notified().await;
        tokio::time::sleep(Duration::from_secs(1)).await; // its answer is on its way
        producer.shutdown().await
    }

    async fn play(&self, scene: &str) -> Done {
        let tagged = |tag: &'static str| move |message: MessageBuilder| message.set_tag(tag);
        match scene {
            "simple" => {
                self.send(&["one", "two", "three"], tagged("A")).await?;
                self.receive(3, FilterType::Tag, "*").await
            }
            "tags" => {
                self.send(&["a"], tagged("A")).await?;
                self.send(&["b"], tagged("B")).await?;
                self.receive(1, FilterType::Tag, "B").await
            }
            "sql" => {
                self.send(&["a"], tagged("A")).await?;
                self.send(&["b"], tagged("B")).await?;
                self.receive(1, FilterType::Sql, "TAGS = 'B'").await
            }
            "fifo" => {
                self.send(&["0", "1", "2", "3", "4", "5"], |message| {
                    message.set_message_group("g")
                })
                .await?;
                self.receive(6, FilterType::Tag, "*").await
            }
            "delay" => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                self.send(&["late"], |message| {
                    message.set_delivery_timestamp(now.as_secs() as i64 + 2)
                })
                .await?;
                self.receive(1, FilterType::Tag, "*").await
            }
            "transaction" => {
                self.transactions().await?;
                self.receive(1, FilterType::Tag, "*").await
            }
            "check" => {
                self.check().await?;
                self.receive(1, FilterType::Tag, "*").await
            }
            _ => panic!("no scene {scene}"),
        }
    }
}

#[tokio::main]
async fn main() -> Done {
    let [endpoints, scene, topic, group] = std::env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    Scene {
        endpoints,
        topic,
        group,
    }
    .play(&scene)
    .await
}
