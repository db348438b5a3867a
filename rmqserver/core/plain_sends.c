// PlainSends; simple.py says what each of its methods does.
#define _GNU_SOURCE  // memmem
#include "glue.h"
#include <structmember.h>

#define KEY_MAX 64
#define ADDED_MAX 80  // a unique key as a property

typedef struct {
    PyObject *connection, *host, *log_offsets;  // owned; the last is NULL if this is no batch
    int64_t log_offset, queue_offset;
    int32_t opaque, queue_id;
    char unique_key[KEY_MAX], key_size, codec;
} Put;

typedef struct {
    PyObject_HEAD
    Buffer puts;
    Py_ssize_t count;
} Puts;

static inline Put *put_at(const Puts *self, Py_ssize_t number) { return (Put *)(void *)self->puts.bytes + number; }

typedef struct {
    Taker taker;
    PyObject *round, *topics, *targets, *address, *next_unique_id, *texts;  // the rules point into the texts
    SendRules rules;
    Text repeat_mark;
    int32_t unusual_sys_flag;
    int knows_safe, is_busy;
    PyObject *added, *pieces;
    Puts *written, *safe;
    PyObject *flow;  // of the last sends, which it does not know of yet
    Py_ssize_t message_count, request_count, size_bytes;
    Buffer room;  // for properties
} PlainSends;

#define NAMES(X) X(is_plain) X(queue_limit) X(sys_flag) X(flow) \
    X(queues) X(born_host) X(local_host) X(advertised_host)
static struct { NAMES(MEMBER_OF) } names;

// --- the puts of a round -----------------------------------------------------------------------------------------------

static int puts_traverse(Puts *self, visitproc visit, void *arg) {
    for (Py_ssize_t number = 0; number < self->count; number++) Py_VISIT(put_at(self, number)->connection);
    return 0;
}

static int puts_clear(Puts *self) {
    while (self->count) {
        Put put = *put_at(self, --self->count);
        Py_DECREF(put.connection);
        Py_DECREF(put.host);
        Py_XDECREF(put.log_offsets);
    }
    return 0;
}

static void puts_dealloc(Puts *self) {
    PyObject_GC_UnTrack(self);
    puts_clear(self);
    drop(&self->puts);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *put_tuple(const Put *put) {
    PyObject *offsets = put->log_offsets ? offset_list(put->log_offsets) : Py_NewRef(Py_None);
    if (!offsets) return NULL;
    return Py_BuildValue("OiiOLLy#Ni", put->connection, (int)put->opaque, (int)put->queue_id, put->host,
                         (long long)put->log_offset, (long long)put->queue_offset, put->unique_key,
                         (Py_ssize_t)put->key_size, offsets, (int)put->codec);
}

static PyObject *puts_all(Puts *self, PyObject *Py_UNUSED(none)) {
    PyObject *all = PyList_New(0);
    for (Py_ssize_t number = 0; all && number < self->count; number++) {
        PyObject *made = put_tuple(put_at(self, number));
        if (!made || PyList_Append(all, made)) Py_CLEAR(all);
        Py_XDECREF(made);
    }
    return all;
}

static PyMethodDef puts_methods[] = {{"all", (PyCFunction)puts_all, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyMemberDef puts_members[] = {{"count", T_PYSSIZET, offsetof(Puts, count), READONLY, NULL}, {NULL, 0, 0, 0, NULL}};

static PyTypeObject PutsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "rmqserver.core._core.Puts",
    .tp_basicsize = sizeof(Puts),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)puts_dealloc,
    .tp_traverse = (traverseproc)puts_traverse,
    .tp_clear = (inquiry)puts_clear,
    .tp_methods = puts_methods,
    .tp_members = puts_members,
};

// Makes the puts if there are none, with room for one more. NULL with an exception.
static Puts *with_room(Puts **puts) {
    if (!*puts) *puts = (Puts *)PutsType.tp_alloc(&PutsType, 0);
    if (!*puts) return NULL;
    (*puts)->puts.size = (*puts)->count * (Py_ssize_t)sizeof(Put);
    return reserve(&(*puts)->puts, sizeof(Put)) ? NULL : *puts;
}

// --- taking a send -----------------------------------------------------------------------------------------------------

typedef struct { PyObject *flow, *entry, *queue, *born_host, *store_host, *added; int32_t sys_flag; } Goal;

static void release(Goal *found) {
    Py_XDECREF(found->flow);
    Py_XDECREF(found->entry);
    Py_XDECREF(found->queue);
    Py_XDECREF(found->born_host);
    Py_XDECREF(found->store_host);
    Py_XDECREF(found->added);
}

// The value of a key that may lack: then there is no exception. A new reference.
static PyObject *value_in(PyObject *dict, PyObject *key) {
    if (!dict || !key) return NULL;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "a dict is wanted");
        return NULL;
    }
    return Py_XNewRef(PyDict_GetItemWithError(dict, key));
}

// 1 if a plain target takes the send; else 0, or -1 with an exception.
static int find_target(PyObject *target, const Send *send, Goal *found) {
    long long queue_limit, sys_flag;
    int is_plain = is_true(target, names.is_plain);
    if (is_plain <= 0) return is_plain;
    if (get_number(target, names.queue_limit, &queue_limit) || get_number(target, names.sys_flag, &sys_flag)) return -1;
    found->sys_flag = send->sys_flag | (int32_t)sys_flag;
    if (send->queue_id < 0 || send->queue_id >= queue_limit) return 0;
    return (found->flow = PyObject_GetAttr(target, names.flow)) ? 1 : -1;
}

static int find_queue(PlainSends *self, PyObject *topic, const Send *send, Goal *found) {
    found->entry = value_in(self->topics, topic);
    if (!found->entry) return PyErr_Occurred() ? -1 : 0;
    PyObject *queues = PyObject_GetAttr(found->entry, names.queues), *queue_id = PyLong_FromLong(send->queue_id);
    found->queue = value_in(queues, queue_id);
    Py_XDECREF(queues);
    Py_XDECREF(queue_id);
    return found->queue ? 1 : PyErr_Occurred() ? -1 : 0;
}

static int find_hosts(PlainSends *self, PyObject *owner, Goal *found) {
    found->born_host = PyObject_GetAttr(owner, names.born_host);
    found->store_host = PyObject_GetAttr(self->address, names.advertised_host);
    if (found->store_host && Py_IsNone(found->store_host))
        Py_SETREF(found->store_host, PyObject_GetAttr(owner, names.local_host));
    return found->born_host && found->store_host ? 1 : -1;
}

static int find_place(PlainSends *self, PyObject *owner, const Send *send, Goal *found) {
    PyObject *topic = PyUnicode_DecodeUTF8(send->topic.bytes, send->topic.size, NULL), *target = value_in(self->targets, topic);
    int done = target ? find_target(target, send, found) : PyErr_Occurred() ? -1 : 0;
    if (done > 0) done = found->sys_flag & self->unusual_sys_flag ? 0 : find_queue(self, topic, send, found);
    if (done > 0) done = find_hosts(self, owner, found);
    Py_XDECREF(topic);
    Py_XDECREF(target);
    return done;
}

// Gives the message a unique key of ours. -1 with an exception.
static int add_unique_key(PlainSends *self, Send *send) {
    PyObject *made = PyObject_CallNoArgs(self->next_unique_id);
    Text key = {NULL, 0};
    if (made) key.bytes = PyUnicode_AsUTF8AndSize(made, &key.size);
    if (key.bytes && key.size > KEY_MAX) {
        PyErr_SetString(PyExc_ValueError, "this unique key is too long");
        key.bytes = NULL;
    }
    if (key.bytes) {
        char *to = put_text(self->room.bytes + send->properties.size, (Text){"UNIQ_KEY\1", 9}), *end = put_text(to, key);
        *end++ = 2;
        send->unique_key = (Text){to, key.size};
        send->properties.size = end - self->room.bytes;
    }
    Py_XDECREF(made);
    return key.bytes ? 0 : -1;
}

// Tells the flow of the last sends. -1 with an exception.
static int count_sends(PlainSends *self) {
    PyObject *flow = self->flow;
    if (!flow) return 0;
    self->flow = NULL;
    PyObject *done = PyObject_CallMethod(flow, "add", "nnn", self->message_count, self->size_bytes, self->request_count);
    self->message_count = self->request_count = self->size_bytes = 0;
    Py_DECREF(flow);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int append(PlainSends *self, PyObject *owner, const Frame *frame, Send *send, const Goal *found) {
    Puts *puts = NULL;
    if (!send->is_batch && !send->unique_key.size && add_unique_key(self, send)) return -1;
    if (!send->is_oneway) {
        puts = with_room(self->knows_safe && send->waits_until_safe ? &self->safe : &self->written);
        if (!puts) return -1;
    }
    Message message = {
        .queue_id = send->queue_id, .flag = send->flag, .sys_flag = found->sys_flag,
        .reconsume_times = send->reconsume_times, .born_ms = send->born_ms, .body = frame->body,
    };
    if (take_hosts(found->born_host, found->store_host, &message)) return -1;
    Spot place;
    PyObject *offsets = NULL;
    if (!send->is_batch) {
        char *end = put_text(self->room.bytes + send->properties.size, text_of(found->added));
        message.properties = (Text){self->room.bytes, end - self->room.bytes};
    }
    int done = round_append(self->round, found->entry, found->queue, &message, &place, send->is_batch ? &offsets : NULL);
    if (done <= 0) return done;
    Py_ssize_t count = offsets ? PyBytes_GET_SIZE(offsets) / (Py_ssize_t)sizeof(int64_t) : 1;
    if (puts) {
        Put *put = put_at(puts, puts->count++);
        *put = (Put){
            Py_NewRef(owner), Py_NewRef(found->store_host), offsets, place.log_offset, place.queue_offset, send->opaque,
            send->queue_id, "", (char)send->unique_key.size, (char)frame->codec,
        };
        if (send->unique_key.size) memcpy(put->unique_key, send->unique_key.bytes, (size_t)send->unique_key.size);
    } else {
        Py_XDECREF(offsets);
    }
    if (self->flow != found->flow) {
        if (count_sends(self)) return -1;
        self->flow = Py_NewRef(found->flow);
    }
    self->message_count += count;
    self->request_count++;
    self->size_bytes += send->is_batch ? frame->body.size : place.size;
    return 1;
}

static int take(Taker *taker, PyObject *owner, const Frame *frame) {
    PlainSends *self = (PlainSends *)taker;
    Send send;
    if (self->is_busy) return 0;
    Py_ssize_t added_size = ADDED_MAX + PyBytes_GET_SIZE(self->added);
    if (reserve(&self->room, frame->header.size + 1 + added_size)) return -1;
    if (!read_send(frame, &self->rules, self->room.bytes, &send)) return 0;
    if (send.is_batch && memmem(frame->body.bytes, (size_t)frame->body.size, self->repeat_mark.bytes,
                                (size_t)self->repeat_mark.size)) return 0;
    Goal found = {.added = Py_NewRef(self->added)};
    self->is_busy = 1;
    int done = find_place(self, owner, &send, &found);
    if (done > 0) done = is_admitted(taker, owner, send.code, frame);
    if (done > 0) done = append(self, owner, frame, &send, &found);
    self->is_busy = 0;
    release(&found);
    return done;
}

// --- methods -----------------------------------------------------------------------------------------------------------

static PyObject *configure(PlainSends *self, PyObject *args) {
    PyObject *added, *pieces;
    int knows_safe;
    Text texts[2 * ANSWER_PIECES];
    if (!PyArg_ParseTuple(args, "SO!p", &added, &PyTuple_Type, &pieces, &knows_safe)) return NULL;
    if (take_texts(pieces, texts, 2 * ANSWER_PIECES, 0)) return NULL;
    if (PyTuple_GET_SIZE(pieces) != 2 * ANSWER_PIECES) return PyErr_Format(PyExc_ValueError, "%d pieces are wanted", 2 * ANSWER_PIECES);
    Py_XSETREF(self->added, Py_NewRef(added));
    Py_XSETREF(self->pieces, Py_NewRef(pieces));
    self->knows_safe = knows_safe;
    Py_RETURN_NONE;
}

static PyObject *taken(PlainSends *self, Puts **given) {
    if (self->is_busy) return PyErr_Format(PyExc_RuntimeError, "this PlainSends is taking a send");
    if (count_sends(self)) return NULL;
    Puts *puts = *given;
    if (!puts || !puts->count) Py_RETURN_NONE;  // none: they were made for a send that was then left to the service
    *given = NULL;
    return (PyObject *)puts;
}

static PyObject *take_written(PlainSends *self, PyObject *Py_UNUSED(none)) { return taken(self, &self->written); }
static PyObject *take_safe(PlainSends *self, PyObject *Py_UNUSED(none)) { return taken(self, &self->safe); }

static Answer answer_of(const Put *put) {
    PyObject *offsets = put->log_offsets;
    return (Answer){
        put->opaque, put->queue_id, put->codec, put->queue_offset, offsets ? (const int64_t *)PyBytes_AS_STRING(offsets) : &put->log_offset,
        offsets ? PyBytes_GET_SIZE(offsets) / (Py_ssize_t)sizeof(int64_t) : 1, text_of(put->host),
        {put->unique_key, put->key_size},
    };
}

// The frames of the puts that stand there, of one connection. NULL with an exception.
static PyObject *frames_of(const Put *puts, Py_ssize_t count, const Text *pieces) {
    Py_ssize_t room = 0;
    for (Py_ssize_t number = 0; number < count; number++) {
        Answer answer = answer_of(&puts[number]);
        room += answer_room(&answer, pieces + answer.codec * ANSWER_PIECES);
    }
    PyObject *frames = PyBytes_FromStringAndSize(NULL, room);
    if (!frames) return NULL;
    char *to = PyBytes_AS_STRING(frames);
    for (Py_ssize_t number = 0; number < count; number++) {
        Answer answer = answer_of(&puts[number]);
        to = put_answer(to, &answer, pieces + answer.codec * ANSWER_PIECES);
    }
    _PyBytes_Resize(&frames, to - PyBytes_AS_STRING(frames));
    return frames;
}

static PyObject *answers(PlainSends *self, PyObject *given) {
    Text pieces[2 * ANSWER_PIECES];
    if (Py_TYPE(given) != &PutsType) return PyErr_Format(PyExc_TypeError, "Puts are wanted");
    if (take_texts(self->pieces, pieces, 2 * ANSWER_PIECES, 0)) return NULL;
    const Puts *puts = (Puts *)given;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t at = 0, end = 1; found && at < puts->count; at = end++) {
        const Put *put = put_at(puts, at);
        while (end < puts->count && put_at(puts, end)->connection == put->connection) end++;
        PyObject *frames = frames_of(put, end - at, pieces);
        PyObject *pair = frames ? Py_BuildValue("ON", put->connection, frames) : NULL;
        if (!pair || PyList_Append(found, pair)) Py_CLEAR(found);
        Py_XDECREF(pair);
    }
    return found;
}

static int read_rules(PlainSends *self, PyObject *own_names, PyObject *more_names, PyObject *marks) {
    SendRules *rules = &self->rules;
    const Py_ssize_t most = sizeof rules->marks / sizeof *rules->marks;
    if (take_texts(own_names, rules->names[0], SEND_NAMES, 0) || take_texts(more_names, rules->names[1], SEND_NAMES, 0)) return -1;
    if (PyTuple_GET_SIZE(own_names) != SEND_NAMES || PyTuple_GET_SIZE(more_names) != SEND_NAMES) {
        PyErr_Format(PyExc_ValueError, "a send has %d fields", SEND_NAMES);
        return -1;
    }
    if (take_texts(marks, rules->marks, most, 0)) return -1;
    rules->mark_count = PyTuple_GET_SIZE(marks);
    return 0;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *given_names) {
    PyObject *round, *topics, *targets, *address, *next_unique_id, *own_names, *more_names, *marks, *repeat_mark;
    int unusual_sys_flag;
    if (given_names && PyDict_GET_SIZE(given_names)) return PyErr_Format(PyExc_TypeError, "PlainSends takes no keywords");
    if (!PyArg_ParseTuple(args, "O!O!O!OOOOOSi", &RoundBufferType, &round, &PyDict_Type, &topics, &PyDict_Type, &targets,
                          &address, &next_unique_id, &own_names, &more_names, &marks, &repeat_mark, &unusual_sys_flag)) return NULL;
    PlainSends *self = (PlainSends *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->taker.take = take;
    self->round = Py_NewRef(round);
    self->topics = Py_NewRef(topics);
    self->targets = Py_NewRef(targets);
    self->address = Py_NewRef(address);
    self->next_unique_id = Py_NewRef(next_unique_id);
    self->repeat_mark = text_of(repeat_mark);
    self->unusual_sys_flag = unusual_sys_flag;
    self->added = PyBytes_FromStringAndSize(NULL, 0);
    self->pieces = PyTuple_New(0);
    self->texts = PyTuple_Pack(4, own_names, more_names, marks, repeat_mark);
    if (!self->added || !self->pieces || !self->texts || read_rules(self, own_names, more_names, marks)) Py_CLEAR(self);
    return (PyObject *)self;
}

#define OWNED(X) X(round) X(topics) X(targets) X(address) X(next_unique_id) X(taker.admits) X(written) X(safe) X(flow)

static int traverse(PlainSends *self, visitproc visit, void *arg) {
    OWNED(VISIT)
    return 0;
}

// What else is collected may still offer a frame: none is taken.
static int clear(PlainSends *self) {
    self->is_busy = 1;
    OWNED(CLEAR)
    return 0;
}

static void dealloc(PlainSends *self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_XDECREF(self->added);
    Py_XDECREF(self->pieces);
    Py_XDECREF(self->texts);
    drop(&self->room);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"configure", (PyCFunction)configure, METH_VARARGS, NULL},
    {"take_written", (PyCFunction)take_written, METH_NOARGS, NULL},
    {"take_safe", (PyCFunction)take_safe, METH_NOARGS, NULL},
    {"answers", (PyCFunction)answers, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject PlainSendsType = {OF_TYPE(PlainSends), COLLECTED, .tp_base = &TakerType};

int add_plain_sends(PyObject *module) {
    static const Name all[] = {NAMES(NAME_OF)};
    if (make_names(all, sizeof all / sizeof *all)) return -1;
    return PyModule_AddType(module, &PutsType) ? -1 : PyModule_AddType(module, &PlainSendsType);
}
