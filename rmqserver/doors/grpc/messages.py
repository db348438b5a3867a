"""The messages of ``apache.rocketmq.v2`` (proto 2.1.2, as Apache's proxy of 5.5.0 serves them), described by a table.

They live in a descriptor pool of their own: a program that also uses Apache's Python client has its descriptors in the
default pool, which refuses a second file of that name that differs.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "apache.rocketmq.v2"
SERVICE = f"{PACKAGE}.MessagingService"

ENUMS = {
    "AddressScheme": "IPv4 IPv6 DOMAIN_NAME",
    "Permission": "NONE READ WRITE READ_WRITE",
    "FilterType": "TAG SQL",
    "MessageType": "NORMAL FIFO DELAY TRANSACTION LITE PRIORITY",
    "DigestType": "CRC32 MD5 SHA1",
    "Encoding": "IDENTITY GZIP",
    "ClientType": "PRODUCER PUSH_CONSUMER SIMPLE_CONSUMER PULL_CONSUMER LITE_PUSH_CONSUMER LITE_SIMPLE_CONSUMER",
    "TransactionResolution": "COMMIT ROLLBACK",
    "TransactionSource": "SOURCE_CLIENT SOURCE_SERVER_CHECK",
    "Language": "JAVA CPP DOT_NET GOLANG RUST PYTHON PHP NODE_JS RUBY OBJECTIVE_C DART KOTLIN",
}
"""Values from 1 on, in order; 0 is "unspecified". In the messages they are numbers, as on the wire."""

LITE_ACTIONS = ("PARTIAL_ADD", "PARTIAL_REMOVE", "COMPLETE_ADD", "COMPLETE_REMOVE")
"""Values of LiteSubscriptionAction, from 0 on."""

# Each line: a message, then its fields as "number name type". A type that is not told is string; * repeated; ? optional
# with presence; {a | b} are alternatives, under the name before the brace.
TABLE = """
Duration: 1 seconds int64, 2 nanos int32
Timestamp: 1 seconds int64, 2 nanos int32
Resource: 1 resource_namespace, 2 name
Address: 1 host, 2 port int32
Endpoints: 1 scheme AddressScheme, 2 addresses Address*
Broker: 1 name, 2 id int32, 3 endpoints Endpoints
MessageQueue: 1 topic Resource, 2 id int32, 3 permission Permission, 4 broker Broker,
 5 accept_message_types MessageType*
FilterExpression: 1 type FilterType, 2 expression
SubscriptionEntry: 1 topic Resource, 2 expression FilterExpression
ExponentialBackoff: 1 initial Duration, 2 max Duration, 3 multiplier float
CustomizedBackoff: 1 next Duration*
RetryPolicy: 1 max_attempts int32, strategy {2 exponential_backoff ExponentialBackoff
 | 3 customized_backoff CustomizedBackoff}
Digest: 1 type DigestType, 2 checksum
DeadLetterQueue: 1 topic, 2 message_id
Message: 1 topic Resource, 2 user_properties map, 3 system_properties SystemProperties, 4 body bytes
SystemProperties: 1 tag?, 2 keys*, 3 message_id, 4 body_digest Digest, 5 body_encoding Encoding,
 6 message_type MessageType, 7 born_timestamp Timestamp, 8 born_host, 9 store_timestamp Timestamp?, 10 store_host,
 11 delivery_timestamp Timestamp?, 12 receipt_handle?, 13 queue_id int32, 14 queue_offset int64?,
 15 invisible_duration Duration?, 16 delivery_attempt int32?, 17 message_group?, 18 trace_context?,
 19 orphaned_transaction_recovery_duration Duration?,
 20 dead_letter_queue DeadLetterQueue?, 21 lite_topic?, 22 priority int32?
Assignment: 1 message_queue MessageQueue
Status: 1 code int32, 2 message
UA: 1 language Language, 2 version, 3 platform, 4 hostname
Metric: 1 on bool, 2 endpoints Endpoints?
Publishing: 1 topics Resource*, 2 max_body_size int32, 3 validate_message_type bool
Subscription: 1 group Resource?, 2 subscriptions SubscriptionEntry*, 3 fifo bool?, 4 receive_batch_size int32?,
 5 long_polling_timeout Duration?, 6 lite_subscription_quota int32?, 7 max_lite_topic_size int32?
Settings: 1 client_type ClientType?, 2 access_point Endpoints?, 3 backoff_policy RetryPolicy?,
 4 request_timeout Duration?, pub_sub {5 publishing Publishing | 6 subscription Subscription},
 7 user_agent UA, 8 metric Metric
OffsetOption: offset_type {1 policy int32 | 2 offset int64 | 3 tail_n int64 | 4 timestamp int64}
QueryRouteRequest: 1 topic Resource, 2 endpoints Endpoints
QueryRouteResponse: 1 status Status, 2 message_queues MessageQueue*
SendMessageRequest: 1 messages Message*
SendResultEntry: 1 status Status, 2 message_id, 3 transaction_id, 4 offset int64, 5 recall_handle
SendMessageResponse: 1 status Status, 2 entries SendResultEntry*
QueryAssignmentRequest: 1 topic Resource, 2 group Resource, 3 endpoints Endpoints
QueryAssignmentResponse: 1 status Status, 2 assignments Assignment*
ReceiveMessageRequest: 1 group Resource, 2 message_queue MessageQueue, 3 filter_expression FilterExpression,
 4 batch_size int32, 5 invisible_duration Duration?, 6 auto_renew bool, 7 long_polling_timeout Duration?, 8 attempt_id?
ReceiveMessageResponse: content {1 status Status | 2 message Message | 3 delivery_timestamp Timestamp}
AckMessageEntry: 1 message_id, 2 receipt_handle, 3 lite_topic?
AckMessageRequest: 1 group Resource, 2 topic Resource, 3 entries AckMessageEntry*
AckMessageResultEntry: 1 message_id, 2 receipt_handle, 3 status Status
AckMessageResponse: 1 status Status, 2 entries AckMessageResultEntry*
ForwardMessageToDeadLetterQueueRequest: 1 group Resource, 2 topic Resource, 3 receipt_handle, 4 message_id,
 5 delivery_attempt int32, 6 max_delivery_attempts int32, 7 lite_topic?
ForwardMessageToDeadLetterQueueResponse: 1 status Status
ChangeInvisibleDurationRequest: 1 group Resource, 2 topic Resource, 3 receipt_handle, 4 invisible_duration Duration,
 5 message_id, 6 lite_topic?, 7 suspend bool?
ChangeInvisibleDurationResponse: 1 status Status, 2 receipt_handle
HeartbeatRequest: 1 group Resource?, 2 client_type ClientType
HeartbeatResponse: 1 status Status
NotifyClientTerminationRequest: 1 group Resource?
NotifyClientTerminationResponse: 1 status Status
EndTransactionRequest: 1 topic Resource, 2 message_id, 3 transaction_id, 4 resolution TransactionResolution,
 5 source TransactionSource, 6 trace_context
EndTransactionResponse: 1 status Status
RecallMessageRequest: 1 topic Resource, 2 recall_handle
RecallMessageResponse: 1 status Status, 2 message_id
SyncLiteSubscriptionRequest: 1 action int32, 2 topic Resource, 3 group Resource, 4 lite_topic_set*,
 5 version int64?, 6 offset_option OffsetOption?
SyncLiteSubscriptionResponse: 1 status Status
ThreadStackTrace: 1 nonce, 2 thread_stack_trace?
VerifyMessageResult: 1 nonce
RecoverOrphanedTransactionCommand: 1 message Message, 2 transaction_id
PrintThreadStackTraceCommand: 1 nonce
ReconnectEndpointsCommand: 1 nonce
VerifyMessageCommand: 1 nonce, 2 message Message
NotifyUnsubscribeLiteCommand: 1 lite_topic
TelemetryCommand: 1 status Status?, command {2 settings Settings | 3 thread_stack_trace ThreadStackTrace
 | 4 verify_message_result VerifyMessageResult
 | 5 recover_orphaned_transaction_command RecoverOrphanedTransactionCommand
 | 6 print_thread_stack_trace_command PrintThreadStackTraceCommand | 7 verify_message_command VerifyMessageCommand
 | 8 reconnect_endpoints_command ReconnectEndpointsCommand
 | 9 notify_unsubscribe_lite_command NotifyUnsubscribeLiteCommand}
"""

Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": Field.TYPE_STRING, "bytes": Field.TYPE_BYTES, "bool": Field.TYPE_BOOL, "int32": Field.TYPE_INT32,
    "int64": Field.TYPE_INT64, "float": Field.TYPE_FLOAT, **dict.fromkeys(ENUMS, Field.TYPE_INT32),
}  # fmt: skip
_LINES = [line.partition(": ")[::2] for line in TABLE.replace("\n ", " ").strip().splitlines()]
"""Name and fields of each message."""
_FIELD = re.compile(r"(\d+) (\w+)(?: (\w+))?([*?]?)")
_ALTERNATIVES = re.compile(r"(\w+) \{.*\}")


def _add_message(message: descriptor_pb2.DescriptorProto, fields: str) -> None:
    """proto3 has its alternatives first, then one more of a single field for each optional field."""
    alternatives = _ALTERNATIVES.search(fields)
    if alternatives is not None:
        message.oneof_decl.add(name=alternatives[1])
    for found in _FIELD.finditer(fields):
        field = _add_field(message, found)
        if alternatives is not None and alternatives.start() <= found.start() < alternatives.end():
            field.oneof_index = 0
        elif found[4] == "?":
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{found[2]}")


def _add_field(message: descriptor_pb2.DescriptorProto, found: re.Match[str]) -> Any:
    number, name, kind, mark = found.groups()
    field = message.field.add(name=name, number=int(number))
    field.label = Field.LABEL_REPEATED if mark == "*" or kind == "map" else Field.LABEL_OPTIONAL
    if kind is None or kind in _SCALARS:
        field.type = _SCALARS[kind or "string"]
        return field
    if kind == "map":
        entry = message.nested_type.add(name="UserPropertiesEntry")
        entry.options.map_entry = True
        for at, half in enumerate(("key", "value"), 1):
            entry.field.add(name=half, number=at, label=Field.LABEL_OPTIONAL, type=Field.TYPE_STRING)
        kind = f"{message.name}.{entry.name}"
    field.type, field.type_name = Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    return field


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="rmqadmin/messages.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _LINES:
        _add_message(file.message_type.add(name=name), fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"{PACKAGE}.{name}") for name, _ in _LINES}
    return {name: message_factory.GetMessageClass(kind) for name, kind in found.items()}


CLASSES = _classes()
"""The message classes, by name."""


@cache
def value(enum: str, name: str) -> int:
    """The number of an enum's value."""
    return ENUMS[enum].split().index(name) + 1
