// RoundBuffer; round_buffer.py says what each of its methods does. An append looks first, then reserves memory, writes behind
// the ends of its buffers, and moves the ends last: a failure before that has changed nothing.
#include "glue.h"
#include <structmember.h>

#define INNER_BATCH 0x80
#define TRANSACTION_MASK 0xC
enum { QUEUED = 1, DUE_TIME = 4 };  // bits of a fate
#define KEPT_MAX_BYTES (1 << 20)  // of a buffer that was taken

typedef struct {
    PyObject_HEAD
    PyObject *clock_ms, *flags;
    long long end_offset, records_end_offset, last_record_offset, store_timestamp_ms, body_size_max_bytes;
    int indexed_bits, is_busy;
    Buffer records, entries, units;  // the units are those of one batch
    Buffer touched;  // owned references
} RoundBuffer;

typedef struct { PyObject *field, *fates; uint32_t prefix_hash; } TopicFacts;  // owned, what was read of a Topic

static PyObject *appended_type;

#define NAMES(X) X(refuses_writes) X(field) X(fates) X(is_too_long) X(index_prefix_hash) \
    X(next_offset) X(tail) X(is_touched)
static struct { NAMES(MEMBER_OF) } names;

// --- looking

static void release(TopicFacts *topic) {
    Py_CLEAR(topic->field);
    Py_CLEAR(topic->fates);
}

// 1; 0 if the topic is too long, or a batch's records need two bytes for its length.
static int read_topic(PyObject *entry, int is_batch, TopicFacts *topic) {
    long long prefix_hash;
    *topic = (TopicFacts){PyObject_GetAttr(entry, names.field), PyObject_GetAttr(entry, names.fates), 0};
    int done = topic->field && topic->fates && !get_number(entry, names.index_prefix_hash, &prefix_hash) ? 1 : -1;
    if (done < 0) goto end;
    topic->prefix_hash = (uint32_t)prefix_hash;
    if (!PyBytes_CheckExact(topic->field) || !PyBytes_CheckExact(topic->fates) || PyBytes_GET_SIZE(topic->fates) != 256) {
        PyErr_SetString(PyExc_TypeError, "a Topic has a field of bytes, and 256 fates");
        done = -1;
    } else if (PyBytes_GET_SIZE(topic->field) > TOPIC_V1_SIZE_MAX + 1) {
        int is_refused = is_batch ? 1 : is_true(entry, names.is_too_long);
        done = is_refused < 0 ? -1 : !is_refused;
    }
end:
    if (done <= 0) release(topic);
    return done;
}

static int has_usual_properties(const Message *message) {
    Text properties = message->properties;
    return properties.size <= PROPERTIES_SIZE_MAX &&
           !(properties.size && memchr(properties.bytes, 0, (size_t)properties.size));
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

// Writes one record, its index entries and, at ``unit``, its unit, behind what is written but not taken in. -1 if that failed.
static int put_one(RoundBuffer *self, const TopicFacts *topic, const Message *message, const Spot *spot, int is_indexed,
                   uint8_t *unit, Py_ssize_t *entry_count) {
    uint8_t *record = (uint8_t *)end_of(&self->records) + (spot->log_offset - self->end_offset);
    put_record(record, message, text_of(topic->field), spot);
    Keys keys = keys_of(message->properties);
    uint32_t code = 0;
    if (!message->tags_code && extend_any_hash(&code, keys.tags)) return -1;
    put_unit(unit, spot->log_offset, spot->size, message->tags_code ? *message->tags_code : (int32_t)code);
    if (!is_indexed) return 0;
    if (reserve(&self->entries, (*entry_count + entry_count_max(&keys)) * (Py_ssize_t)sizeof(Entry))) return -1;
    Entry *entries = end_of(&self->entries);
    ptrdiff_t made = put_entries(entries + *entry_count, topic->prefix_hash, &keys, spot->log_offset, spot->store_ms);
    *entry_count += made;
    return made < 0 ? -1 : 0;
}

// How many messages there are, and the size of their records. 0 if one is doubtful.
static Py_ssize_t look_at(const RoundBuffer *self, Text field, const Message *message, int is_batch, int64_t *size) {
    Text rest = message->body;
    Message one = *message;
    Py_ssize_t count = 0;
    *size = 0;
    for (int more; (more = is_batch ? next_of_batch(&rest, &one) : !count); count++) {
        if (more < 0 || count == BATCH_COUNT_MAX || !has_usual_properties(&one)) return 0;
        int64_t wanted = record_size(&one, field);
        if (wanted > INT32_MAX || wanted > self->records_end_offset - self->end_offset - *size) return 0;
        *size += wanted;
    }
    return count;
}

// As round_append, for messages with this fate.
static int append_all(RoundBuffer *self, const TopicFacts *topic, PyObject *queue, const Message *message, int fate, Spot *first,
                      PyObject **offsets) {
    long long queue_offset = 0;
    int64_t size, *log_offsets = NULL;
    Text rest = message->body, field = text_of(topic->field);
    Message one = *message;
    Py_ssize_t count = look_at(self, field, message, offsets != NULL, &size), entry_count = 0;
    if (!count) return 0;
    if (start(self) || (fate & QUEUED && get_number(queue, names.next_offset, &queue_offset))) return -1;
    if (reserve(&self->records, size) || reserve(&self->units, count * UNIT_SIZE)) return -1;
    if (offsets) {
        if (!(*offsets = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int64_t)))) return -1;
        log_offsets = (int64_t *)PyBytes_AS_STRING(*offsets);
    }
    Spot spot = {self->end_offset, queue_offset, self->store_timestamp_ms, 0};
    for (Py_ssize_t number = 0; number < count; number++, spot.queue_offset++) {
        if (offsets) next_of_batch(&rest, &one);
        spot.log_offset += spot.size;
        spot.size = (int32_t)record_size(&one, field);
        if (!number) *first = spot;
        if (offsets) log_offsets[number] = spot.log_offset;
        uint8_t *unit = (uint8_t *)self->units.bytes + number * UNIT_SIZE;
        if (put_one(self, topic, &one, &spot, fate & self->indexed_bits, unit, &entry_count)) goto failed;
    }
    if (fate & QUEUED && add_units(self, queue, queue_offset, (uint8_t *)self->units.bytes, count * UNIT_SIZE)) goto failed;
    self->records.size += size;
    self->entries.size += entry_count * (Py_ssize_t)sizeof(Entry);
    self->last_record_offset = spot.log_offset;
    self->end_offset = spot.log_offset + spot.size;
    if (self->units.room > KEPT_MAX_BYTES) drop(&self->units);
    return 1;
failed:
    if (offsets) Py_CLEAR(*offsets);
    return -1;
}

static int append_any(RoundBuffer *self, PyObject *entry, PyObject *queue, const Message *message, int takes_due_times, Spot *first,
                      PyObject **offsets) {
    TopicFacts topic;
    if (message->sys_flag & (INNER_BATCH | (offsets ? TRANSACTION_MASK : 0)) || message->body.size > self->body_size_max_bytes)
        return 0;
    int done = takes_more(self);
    if (done > 0) done = read_topic(entry, offsets != NULL, &topic);
    if (done <= 0) return done;
    int fate = PyBytes_AS_STRING(topic.fates)[message->sys_flag & 0xFF];
    self->is_busy = 1;
    done = fate & DUE_TIME && !takes_due_times ? 0 : append_all(self, &topic, queue, message, fate, first, offsets);
    self->is_busy = 0;
    release(&topic);
    return done;
}

int round_append(PyObject *round, PyObject *entry, PyObject *queue, const Message *message, Spot *first, PyObject **offsets) {
    return append_any((RoundBuffer *)round, entry, queue, message, 0, first, offsets);
}

// --- methods

static PyObject *appended_of(const Spot *spot) {
    return PyObject_CallFunction(appended_type, "LiL", (long long)spot->log_offset, (int)spot->size, (long long)spot->queue_offset);
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
    PyObject *view = PyMemoryView_FromObject(offsets), *numbers = view ? PyObject_CallMethod(view, "cast", "s", "q") : NULL;
    PyObject *found = numbers ? PyObject_CallMethod(numbers, "tolist", NULL) : NULL;
    Py_XDECREF(view);
    Py_XDECREF(numbers);
    return found;
}

// None if a number does not fit its field, else NULL.
static PyObject *not_parsed(void) {
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyObject *append(RoundBuffer *self, PyObject *args) {
    PyObject *entry, *queue, *born_host, *store_host, *properties, *given_code, *found_keys;
    long long born_ms, prepared_offset;
    Message message = {0};
    Spot spot;
    Py_buffer body;
    if (!PyArg_ParseTuple(args, "OOiiiLSSiy*SLOO", &entry, &queue, &message.queue_id, &message.flag, &message.sys_flag, &born_ms,
                          &born_host, &store_host, &message.reconsume_times, &body, &properties, &prepared_offset,
                          &given_code, &found_keys)) return not_parsed();
    const int64_t tags_code = Py_IsNone(given_code) ? 0 : PyLong_AsLongLong(given_code);
    int done = tags_code == -1 && PyErr_Occurred() ? -1 : take_hosts(born_host, store_host, &message);
    message.born_ms = born_ms;
    message.prepared_offset = prepared_offset;
    message.body = (Text){body.buf, body.len};
    message.properties = text_of(properties);
    message.tags_code = Py_IsNone(given_code) ? NULL : &tags_code;
    if (!done) done = append_any(self, entry, queue, &message, 1, &spot, NULL);
    PyBuffer_Release(&body);
    return done > 0 ? appended_of(&spot) : done ? not_parsed() : Py_NewRef(Py_None);
}

static PyObject *append_batch(RoundBuffer *self, PyObject *args) {
    PyObject *entry, *queue, *born_host, *store_host, *batch, *offsets;
    long long born_ms;
    Message message = {0};
    Spot first;
    if (!PyArg_ParseTuple(args, "OOiiLSSiS", &entry, &queue, &message.queue_id, &message.sys_flag, &born_ms, &born_host,
                          &store_host, &message.reconsume_times, &batch)) return not_parsed();
    message.born_ms = born_ms;
    message.body = text_of(batch);
    if (take_hosts(born_host, store_host, &message)) return NULL;
    int done = append_any(self, entry, queue, &message, 0, &first, &offsets);
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
    if (self->is_busy) return PyErr_Format(PyExc_RuntimeError, "this RoundBuffer is appending");
    PyObject *taken = PyBytes_FromStringAndSize(buffer->bytes, buffer->size);
    if (!taken) return NULL;
    buffer->size = 0;
    if (buffer->room > KEPT_MAX_BYTES) drop(buffer);
    return taken;
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
    {"append", (PyCFunction)append, METH_VARARGS, NULL},
    {"append_batch", (PyCFunction)append_batch, METH_VARARGS, NULL},
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

PyTypeObject RoundBufferType = {OF_TYPE(RoundBuffer), COLLECTED, .tp_members = members, .tp_getset = computed};

int add_round_buffer(PyObject *module) {
    static const Name all[] = {NAMES(NAME_OF)};
    appended_type = imported("rmqserver.core.round_buffer", "Appended");
    return make_names(all, sizeof all / sizeof *all) || !appended_type ? -1 : PyModule_AddType(module, &RoundBufferType);
}
