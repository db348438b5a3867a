"""The door of RocketMQ 5's clients: ``apache.rocketmq.v2.MessagingService`` over HTTP/2."""
