// RoundBuffer; round_buffer.py says what each of its methods does. An append looks first, then reserves memory, writes behind
// the ends of its buffers, and moves the ends last: a failure before that has changed nothing.
#include "glue.h"
#include <structmember.h>

#define INNER_BATCH 0x80
#define TRANSACTION_MASK 0xC
enum { QUEUED = 1, DUE_TIME = 4 };  // bits of a fate
#define KEPT_MAX_BYTES (1 << 20)  // of a buffer that was taken

typedef struct { char *bytes; Py_ssize_t size, room; } Buffer;

typedef struct {
    PyObject_HEAD
    PyObject *clock_ms, *flags;
    long long end_offset, records_end_offset, last_record_offset, store_timestamp_ms, body_size_max_bytes;
    int indexed_bits, is_busy;
    Buffer records, entries, units;  // the units are those of one batch
    Buffer touched;  // owned references
} RoundBuffer;

typedef struct { PyObject *field, *fates; uint32_t prefix_hash; } TopicFacts;  // owned, what was read of a Topic

static PyObject *appended_type, *extend_hash_utf8;

#define NAMES(X) X(refuses_writes) X(field) X(fates) X(is_too_long) X(index_prefix_hash) \
    X(next_offset) X(tail) X(is_touched)
static struct { NAMES(MEMBER_OF) } names;

// --- small parts

static int reserve(Buffer *buffer, Py_ssize_t more) {
    if (buffer->room - buffer->size >= more) return 0;
    Py_ssize_t room = buffer->room ? buffer->room : 512;
    if (more > PY_SSIZE_T_MAX / 4 - buffer->size) goto failed;
    while (room - buffer->size < more) room *= 2;
    char *bytes = PyMem_Realloc(buffer->bytes, (size_t)room);
    if (!bytes) goto failed;
    buffer->bytes = bytes;
    buffer->room = room;
    return 0;
failed:
    PyErr_NoMemory();
    return -1;
}

static void drop(Buffer *buffer) {
    PyMem_Free(buffer->bytes);
    *buffer = (Buffer){NULL, 0, 0};
}

static PyObject *take_bytes(Buffer *buffer) {
    PyObject *taken = PyBytes_FromStringAndSize(buffer->bytes, buffer->size);
    if (!taken) return NULL;
    buffer->size = 0;
    if (buffer->room > KEPT_MAX_BYTES) drop(buffer);
    return taken;
}

static void *end_of(const Buffer *buffer) { return buffer->bytes + buffer->size; }

int odd_hash(uint32_t *hash, Text text) {
    PyObject *made = PyObject_CallFunction(extend_hash_utf8, "Iy#", (unsigned int)*hash, text.bytes, text.size);
    if (!made) return -1;
    *hash = (uint32_t)PyLong_AsUnsignedLong(made);
    Py_DECREF(made);
    return PyErr_Occurred() ? -1 : 0;
}

int is_true(PyObject *owner, PyObject *name) {
    PyObject *value = PyObject_GetAttr(owner, name);
    if (!value) return -1;
    int found = PyObject_IsTrue(value);
    Py_DECREF(value);
    return found;
}

int get_number(PyObject *owner, PyObject *name, long long *number) {
    PyObject *value = PyObject_GetAttr(owner, name);
    if (!value) return -1;
    *number = PyLong_AsLongLong(value);
    Py_DECREF(value);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

// 1 if the number fits, 0 if not.
static int take_number(PyObject *given, long long min, long long max, long long *number) {
    int overflow;
    *number = PyLong_AsLongLongAndOverflow(given, &overflow);
    if (*number == -1 && PyErr_Occurred()) return -1;
    return !overflow && *number >= min && *number <= max;
}

static int take_int32(PyObject *given, int32_t *number) {
    long long found;
    int fits = take_number(given, INT32_MIN, INT32_MAX, &found);
    *number = (int32_t)found;
    return fits;
}

static int take_int64(PyObject *given, int64_t *number) {
    long long found;
    int fits = take_number(given, INT64_MIN, INT64_MAX, &found);
    *number = found;
    return fits;
}

// --- looking

static void release(TopicFacts *topic) {
    Py_CLEAR(topic->field);
    Py_CLEAR(topic->fates);
}

// 1; 0 if the topic is too long, or its records need two bytes for its length and these ``must_be_short``.
static int read_topic(PyObject *entry, int must_be_short, TopicFacts *topic) {
    long long prefix_hash;
    *topic = (TopicFacts){PyObject_GetAttr(entry, names.field), PyObject_GetAttr(entry, names.fates), 0};
    if (!topic->field || !topic->fates || get_number(entry, names.index_prefix_hash, &prefix_hash)) goto failed;
    if (!PyBytes_CheckExact(topic->field) || !PyBytes_CheckExact(topic->fates) || PyBytes_GET_SIZE(topic->fates) != 256) {
        PyErr_SetString(PyExc_TypeError, "a Topic has a field of bytes, and 256 fates");
        goto failed;
    }
    topic->prefix_hash = (uint32_t)prefix_hash;
    if (PyBytes_GET_SIZE(topic->field) <= TOPIC_V1_SIZE_MAX + 1) return 1;
    int is_refused = must_be_short ? 1 : is_true(entry, names.is_too_long);
    if (!is_refused) return 1;
    release(topic);
    return is_refused < 0 ? -1 : 0;
failed:
    release(topic);
    return -1;
}

static int has_usual_properties(const Message *message) {
    Text properties = message->properties, added = message->added;
    if (properties.size > PROPERTIES_SIZE_MAX || added.size > PROPERTIES_SIZE_MAX - properties.size) return 0;
    return !(properties.size && memchr(properties.bytes, 0, (size_t)properties.size)) &&
           !(added.size && memchr(added.bytes, 0, (size_t)added.size));
}

// Whether the store takes writes, and the RoundBuffer is not in the middle of one.
static int takes_more(RoundBuffer *self) {
    if (self->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "this RoundBuffer is appending");
        return -1;
    }
    int refuses = is_true(self->flags, names.refuses_writes);
    return refuses < 0 ? -1 : !refuses;
}

static int start(RoundBuffer *self) {
    if (self->store_timestamp_ms) return 0;
    PyObject *now = PyObject_CallNoArgs(self->clock_ms);
    if (!now) return -1;
    long long now_ms = PyLong_AsLongLong(now);
    Py_DECREF(now);
    if (now_ms == -1 && PyErr_Occurred()) return -1;
    self->store_timestamp_ms = now_ms;
    return 0;
}

// --- appending

// Adds the units to the queue, which goes on at ``next_offset``.
static int add_units(RoundBuffer *self, PyObject *queue, long long next_offset, const uint8_t *units, Py_ssize_t size) {
    PyObject *tail = PyObject_GetAttr(queue, names.tail), *number = PyLong_FromLongLong(next_offset + size / UNIT_SIZE);
    int is_touched = is_true(queue, names.is_touched), failed = -1;
    if (!tail || !number || is_touched < 0 || reserve(&self->touched, sizeof(PyObject *))) goto done;
    if (!PyByteArray_CheckExact(tail)) {
        PyErr_SetString(PyExc_TypeError, "a queue's tail is a bytearray");
        goto done;
    }
    Py_ssize_t before = PyByteArray_GET_SIZE(tail);
    if (PyByteArray_Resize(tail, before + size)) goto done;
    memcpy(PyByteArray_AS_STRING(tail) + before, units, (size_t)size);
    // Nothing fails from here on with a ConsumeQueue, whose attributes are slots.
    if (PyObject_SetAttr(queue, names.next_offset, number)) goto done;
    if (!is_touched) {
        if (PyObject_SetAttr(queue, names.is_touched, Py_True)) goto done;
        *(PyObject **)end_of(&self->touched) = Py_NewRef(queue);
        self->touched.size += sizeof(PyObject *);
    }
    failed = 0;
done:
    Py_XDECREF(tail);
    Py_XDECREF(number);
    return failed;
}

// Writes one record, its index entries and, at ``unit``, its unit, behind what is written but not taken in. Without
// ``tags_code``, the unit has the tag's. -1 if that failed.
static int put_one(RoundBuffer *self, const TopicFacts *topic, const Message *message, const Spot *spot, int is_indexed,
                   const int64_t *tags_code, uint8_t *unit, Py_ssize_t *entry_count) {
    uint8_t *record = (uint8_t *)end_of(&self->records) + (spot->log_offset - self->end_offset);
    put_record(record, message, text_of(topic->field), spot);
    ptrdiff_t properties_size = message->properties.size + message->added.size;
    Keys keys = keys_of((Text){(const char *)record + spot->size - properties_size, properties_size});
    uint32_t code = 0;
    if (!tags_code && extend_any_hash(&code, keys.tags)) return -1;
    put_unit(unit, spot->log_offset, spot->size, tags_code ? *tags_code : (int32_t)code);
    if (!is_indexed) return 0;
    if (reserve(&self->entries, (*entry_count + entry_count_max(&keys)) * (Py_ssize_t)sizeof(Entry))) return -1;
    Entry *entries = end_of(&self->entries);
    ptrdiff_t made = put_entries(entries + *entry_count, topic->prefix_hash, &keys, spot->log_offset, spot->store_ms);
    *entry_count += made;
    return made < 0 ? -1 : 0;
}

// Takes in what was written, of which ``last`` is the last record.
static void take_in(RoundBuffer *self, const Spot *last, Py_ssize_t entry_count) {
    int64_t end_offset = last->log_offset + last->size;
    self->records.size += end_offset - self->end_offset;
    self->entries.size += entry_count * (Py_ssize_t)sizeof(Entry);
    self->last_record_offset = last->log_offset;
    self->end_offset = end_offset;
}

static int append_record(RoundBuffer *self, const TopicFacts *topic, PyObject *queue, const Message *message, int fate,
                         const int64_t *tags_code, Place *place) {
    int64_t size = record_size(message, text_of(topic->field));
    if (size > INT32_MAX || size > self->records_end_offset - self->end_offset) return 0;
    if (start(self)) return -1;
    Py_ssize_t entry_count = 0;
    uint8_t unit[UNIT_SIZE];
    long long queue_offset = 0;
    if (fate & QUEUED && get_number(queue, names.next_offset, &queue_offset)) return -1;
    Spot spot = {self->end_offset, queue_offset, self->store_timestamp_ms, (int32_t)size};
    if (reserve(&self->records, size)) return -1;
    if (put_one(self, topic, message, &spot, fate & self->indexed_bits, tags_code, unit, &entry_count)) return -1;
    if (fate & QUEUED && add_units(self, queue, queue_offset, unit, UNIT_SIZE)) return -1;
    take_in(self, &spot, entry_count);
    *place = (Place){spot.log_offset, queue_offset, spot.size};
    return 1;
}

static int append_message(RoundBuffer *self, PyObject *entry, PyObject *queue, const Message *message, int takes_due_times,
                          const int64_t *tags_code, Place *place) {
    TopicFacts topic;
    if (message->sys_flag & INNER_BATCH || message->body.size > self->body_size_max_bytes || !has_usual_properties(message))
        return 0;
    int done = takes_more(self);
    if (done > 0) done = read_topic(entry, 0, &topic);
    if (done <= 0) return done;
    int fate = PyBytes_AS_STRING(topic.fates)[message->sys_flag & 0xFF];
    self->is_busy = 1;
    done = fate & DUE_TIME && !takes_due_times ? 0
                                               : append_record(self, &topic, queue, message, fate, tags_code, place);
    self->is_busy = 0;
    release(&topic);
    return done;
}

int round_append(PyObject *round, PyObject *entry, PyObject *queue, const Message *message, Place *place) {
    return append_message((RoundBuffer *)round, entry, queue, message, 0, NULL, place);
}

typedef struct { int64_t count, size; } Look;

// What the batch takes. 0 if it is doubtful.
static int look_at_batch(const RoundBuffer *self, Text field, const Message *message, Look *look) {
    Text rest = message->body;
    Message one = *message;
    *look = (Look){0, 0};
    for (int more; (more = next_of_batch(&rest, &one)); look->count++) {
        if (more < 0 || look->count == BATCH_COUNT_MAX || !has_usual_properties(&one)) return 0;
        int64_t size = record_size(&one, field);
        if (size > INT32_MAX || size > self->records_end_offset - self->end_offset - look->size) return 0;
        look->size += size;
    }
    return look->count > 0;
}

static int append_records(RoundBuffer *self, const TopicFacts *topic, PyObject *queue, const Message *message, Place *first,
                          PyObject **offsets) {
    Look look;
    long long queue_offset;
    if (PyBytes_AS_STRING(topic->fates)[0] & DUE_TIME || !look_at_batch(self, text_of(topic->field), message, &look)) return 0;
    if (start(self) || get_number(queue, names.next_offset, &queue_offset)) return -1;
    Py_ssize_t units_size = look.count * UNIT_SIZE, entry_count = 0, number = 0;
    if (reserve(&self->records, look.size) || reserve(&self->units, units_size)) return -1;
    PyObject *made = PyBytes_FromStringAndSize(NULL, look.count * (Py_ssize_t)sizeof(int64_t));
    if (!made) return -1;
    int64_t *log_offsets = (int64_t *)PyBytes_AS_STRING(made);
    Text rest = message->body;
    Message one = *message;
    Spot spot = {self->end_offset, queue_offset, self->store_timestamp_ms, 0};
    for (; next_of_batch(&rest, &one) > 0; spot.queue_offset++, number++) {
        uint8_t *unit = (uint8_t *)self->units.bytes + number * UNIT_SIZE;
        spot.log_offset += spot.size;
        spot.size = (int32_t)record_size(&one, text_of(topic->field));
        if (!number) *first = (Place){spot.log_offset, queue_offset, spot.size};
        log_offsets[number] = spot.log_offset;
        if (put_one(self, topic, &one, &spot, self->indexed_bits, NULL, unit, &entry_count)) goto failed;
    }
    if (add_units(self, queue, queue_offset, (uint8_t *)self->units.bytes, units_size)) goto failed;
    take_in(self, &spot, entry_count);
    if (self->units.room > KEPT_MAX_BYTES) drop(&self->units);
    *offsets = made;
    return 1;
failed:
    Py_DECREF(made);
    return -1;
}

int round_append_batch(PyObject *round, PyObject *entry, PyObject *queue, const Message *message, Place *first,
                       PyObject **offsets) {
    RoundBuffer *self = (RoundBuffer *)round;
    TopicFacts topic;
    if (message->sys_flag & (INNER_BATCH | TRANSACTION_MASK) || message->body.size > self->body_size_max_bytes) return 0;
    int done = takes_more(self);
    if (done > 0) done = read_topic(entry, 1, &topic);
    if (done <= 0) return done;
    self->is_busy = 1;
    done = append_records(self, &topic, queue, message, first, offsets);
    self->is_busy = 0;
    release(&topic);
    return done;
}

// --- methods

static PyObject *appended_of(const Place *place) {
    PyObject *parts[] = {PyLong_FromLongLong(place->log_offset), PyLong_FromLong(place->size),
                         PyLong_FromLongLong(place->queue_offset)};
    PyObject *made = parts[0] && parts[1] && parts[2] ? PyObject_Vectorcall(appended_type, parts, 3, NULL) : NULL;
    for (int number = 0; number < 3; number++) Py_XDECREF(parts[number]);
    return made;
}

int take_hosts(PyObject *born_host, PyObject *store_host, Message *message) {
    PyObject *hosts[] = {born_host, store_host};
    for (int number = 0; number < 2; number++)
        if (!PyBytes_Check(hosts[number]) ||
            (PyBytes_GET_SIZE(hosts[number]) != HOST_V4_SIZE && PyBytes_GET_SIZE(hosts[number]) != HOST_V6_SIZE)) {
            PyErr_SetString(PyExc_ValueError, "a host is 8 or 20 bytes");
            return -1;
        }
    message->born_host = text_of(born_host);
    message->store_host = text_of(store_host);
    return 0;
}

PyObject *offset_list(PyObject *offsets) {
    Py_ssize_t count = PyBytes_GET_SIZE(offsets) / (Py_ssize_t)sizeof(int64_t);
    const int64_t *offset = (const int64_t *)PyBytes_AS_STRING(offsets);
    PyObject *numbers = PyList_New(count);
    for (Py_ssize_t at = 0; numbers && at < count; at++) {
        PyObject *made = PyLong_FromLongLong(offset[at]);
        if (made) PyList_SET_ITEM(numbers, at, made);
        else Py_CLEAR(numbers);
    }
    return numbers;
}

static PyObject *append(RoundBuffer *self, PyObject *const *given, Py_ssize_t count) {
    if (count != 14 || !PyBytes_Check(given[10])) {
        PyErr_SetString(PyExc_TypeError, "append wants 14 arguments, and properties of bytes");
        return NULL;
    }
    Message message = {.properties = text_of(given[10])};
    Place place;
    int64_t tags_code = 0;
    Py_buffer body;
    int done = 1;
    int32_t *const small[] = {&message.queue_id, &message.flag, &message.sys_flag, &message.reconsume_times};
    int64_t *const large[] = {&message.born_ms, &message.prepared_offset, &tags_code};
    static const int small_at[] = {2, 3, 4, 8}, large_at[] = {5, 11, 12};
    for (int number = 0; number < 4 && done > 0; number++) done = take_int32(given[small_at[number]], small[number]);
    for (int number = 0; number < 3 && done > 0; number++)
        if (large_at[number] != 12 || !Py_IsNone(given[12])) done = take_int64(given[large_at[number]], large[number]);
    if (done < 0 || take_hosts(given[6], given[7], &message)) return NULL;
    if (!done) Py_RETURN_NONE;
    if (PyObject_GetBuffer(given[9], &body, PyBUF_SIMPLE)) return NULL;
    message.body = (Text){body.buf, body.len};
    done = append_message(self, given[0], given[1], &message, 1, Py_IsNone(given[12]) ? NULL : &tags_code, &place);
    PyBuffer_Release(&body);
    if (done <= 0) return done ? NULL : Py_NewRef(Py_None);
    return appended_of(&place);
}

static PyObject *append_batch(RoundBuffer *self, PyObject *const *given, Py_ssize_t count) {
    if (count != 9 || !PyBytes_Check(given[8])) {
        PyErr_SetString(PyExc_TypeError, "append_batch wants 9 arguments, the last of bytes");
        return NULL;
    }
    Message message = {.body = text_of(given[8])};
    Place first;
    PyObject *offsets;
    int done = take_int32(given[2], &message.queue_id);
    if (done > 0) done = take_int32(given[3], &message.sys_flag);
    if (done > 0) done = take_int64(given[4], &message.born_ms);
    if (done > 0) done = take_int32(given[7], &message.reconsume_times);
    if (done < 0 || take_hosts(given[5], given[6], &message)) return NULL;
    if (done > 0) done = round_append_batch((PyObject *)self, given[0], given[1], &message, &first, &offsets);
    if (done <= 0) return done ? NULL : Py_NewRef(Py_None);
    PyObject *numbers = offset_list(offsets);
    Py_DECREF(offsets);
    return numbers ? Py_BuildValue("NN", appended_of(&first), numbers) : NULL;
}

static PyObject *dispatch(RoundBuffer *self, PyObject *args) {
    PyObject *queue, *tags;
    long long log_offset, next_offset;
    int size;
    uint32_t code = 0;
    uint8_t unit[UNIT_SIZE];
    if (!PyArg_ParseTuple(args, "OLiS", &queue, &log_offset, &size, &tags)) return NULL;
    if (extend_any_hash(&code, text_of(tags)) || get_number(queue, names.next_offset, &next_offset)) return NULL;
    put_unit(unit, log_offset, size, (int32_t)code);
    if (add_units(self, queue, next_offset, unit, UNIT_SIZE)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *add(RoundBuffer *self, PyObject *data) {
    if (!PyBytes_Check(data)) return PyErr_Format(PyExc_TypeError, "bytes are wanted");
    if (self->is_busy) return PyErr_Format(PyExc_RuntimeError, "this RoundBuffer is appending");
    if (reserve(&self->records, PyBytes_GET_SIZE(data))) return NULL;
    memcpy(end_of(&self->records), PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
    self->records.size += PyBytes_GET_SIZE(data);
    Py_RETURN_NONE;
}

static PyObject *take_from(RoundBuffer *self, Buffer *buffer) {
    return self->is_busy ? PyErr_Format(PyExc_RuntimeError, "this RoundBuffer is appending") : take_bytes(buffer);
}

static PyObject *take(RoundBuffer *self, PyObject *Py_UNUSED(unused)) { return take_from(self, &self->records); }

static PyObject *take_entries(RoundBuffer *self, PyObject *Py_UNUSED(unused)) { return take_from(self, &self->entries); }

static PyObject *take_touched(RoundBuffer *self, PyObject *Py_UNUSED(unused)) {
    Py_ssize_t count = self->touched.size / (Py_ssize_t)sizeof(PyObject *);
    PyObject *taken = PyList_New(count), **queues = (PyObject **)self->touched.bytes;
    if (!taken) return NULL;
    self->touched.size = 0;
    for (Py_ssize_t number = 0; number < count; number++) PyList_SET_ITEM(taken, number, queues[number]);
    for (Py_ssize_t number = 0; number < count; number++)
        if (PyObject_SetAttr(PyList_GET_ITEM(taken, number), names.is_touched, Py_False)) {
            Py_DECREF(taken);
            return NULL;
        }
    return taken;
}

static PyObject *is_empty(RoundBuffer *self, void *Py_UNUSED(closure)) {
    return PyBool_FromLong(!self->records.size && !self->entries.size && !self->touched.size);
}

// --- the type

static int traverse(RoundBuffer *self, visitproc visit, void *arg) {
    Py_VISIT(self->clock_ms);
    Py_VISIT(self->flags);
    for (Py_ssize_t at = 0; at < self->touched.size; at += sizeof(PyObject *)) Py_VISIT(*(PyObject **)(self->touched.bytes + at));
    return 0;
}

// What is left can still be called: it finds None instead.
static int clear(RoundBuffer *self) {
    Buffer touched = self->touched;
    self->touched = (Buffer){NULL, 0, 0};
    for (Py_ssize_t at = 0; at < touched.size; at += sizeof(PyObject *)) Py_DECREF(*(PyObject **)(touched.bytes + at));
    drop(&touched);
    Py_XSETREF(self->clock_ms, Py_NewRef(Py_None));
    Py_XSETREF(self->flags, Py_NewRef(Py_None));
    return 0;
}

static void dealloc(RoundBuffer *self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_DECREF(self->clock_ms);
    Py_DECREF(self->flags);
    drop(&self->records);
    drop(&self->entries);
    drop(&self->units);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *clock_ms, *flags;
    static char *names[] = {"clock_ms", "flags", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &clock_ms, &flags)) return NULL;
    RoundBuffer *self = (RoundBuffer *)type->tp_alloc(type, 0);  // all zero
    if (!self) return NULL;
    self->clock_ms = Py_NewRef(clock_ms);
    self->flags = Py_NewRef(flags);
    return (PyObject *)self;
}

static PyMethodDef methods[] = {
    {"append", (PyCFunction)(void (*)(void))append, METH_FASTCALL, NULL},
    {"append_batch", (PyCFunction)(void (*)(void))append_batch, METH_FASTCALL, NULL},
    {"dispatch", (PyCFunction)dispatch, METH_VARARGS, NULL},
    {"add", (PyCFunction)add, METH_O, NULL},
    {"take", (PyCFunction)take, METH_NOARGS, NULL},
    {"take_entries", (PyCFunction)take_entries, METH_NOARGS, NULL},
    {"take_touched", (PyCFunction)take_touched, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef members[] = {
    {"end_offset", T_LONGLONG, offsetof(RoundBuffer, end_offset), 0, NULL},
    {"records_end_offset", T_LONGLONG, offsetof(RoundBuffer, records_end_offset), 0, NULL},
    {"last_record_offset", T_LONGLONG, offsetof(RoundBuffer, last_record_offset), 0, NULL},
    {"store_timestamp_ms", T_LONGLONG, offsetof(RoundBuffer, store_timestamp_ms), 0, NULL},
    {"body_size_max_bytes", T_LONGLONG, offsetof(RoundBuffer, body_size_max_bytes), 0, NULL},
    {"indexed_bits", T_INT, offsetof(RoundBuffer, indexed_bits), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef computed[] = {
    {"is_empty", (getter)is_empty, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject RoundBufferType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "rmqserver.core._core.RoundBuffer",
    .tp_basicsize = sizeof(RoundBuffer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = make,
    .tp_dealloc = (destructor)dealloc,
    .tp_traverse = (traverseproc)traverse,
    .tp_clear = (inquiry)clear,
    .tp_methods = methods,
    .tp_members = members,
    .tp_getset = computed,
};

int add_round_buffer(PyObject *module) {
    static const Name all[] = {NAMES(NAME_OF)};
    if (make_names(all, sizeof all / sizeof *all)) return -1;
    PyObject *twin = PyImport_ImportModule("rmqserver.core.round_buffer");
    PyObject *hashes = PyImport_ImportModule("rmqproto.java.java_hash");
    if (twin) appended_type = PyObject_GetAttrString(twin, "Appended");
    if (hashes) extend_hash_utf8 = PyObject_GetAttrString(hashes, "extend_hash_utf8");
    Py_XDECREF(twin);
    Py_XDECREF(hashes);
    if (!appended_type || !extend_hash_utf8 || PyType_Ready(&RoundBufferType)) return -1;
    return PyModule_AddObjectRef(module, "RoundBuffer", (PyObject *)&RoundBufferType);
}
