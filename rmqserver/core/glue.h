// What the files of the glue layer share. Each function says what it returns; NULL or -1 come with an exception.
#ifndef RMQ_CORE_GLUE_H
#define RMQ_CORE_GLUE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <time.h>
#include "bytes.h"

static inline Text text_of(PyObject *bytes) { return (Text){PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes)}; }

// Sets the texts of a tuple of bytes, or None where it ``may_lack`` one. -1 for anything else, and for more than ``max``.
int take_texts(PyObject *given, Text *texts, Py_ssize_t max, int may_lack);

// Names of attributes, made once. -1 if one cannot be made.
typedef struct { PyObject **name; const char *text; } Name;
int make_names(const Name *names, size_t count);
#define MEMBER_OF(name) PyObject *name;  // with NAME_OF: for a list of names, and a struct ``names`` of them
#define NAME_OF(name) {&names.name, #name},
#define VISIT(member) Py_VISIT(self->member);  // these two for a list of the members that a type owns
#define CLEAR(member) Py_CLEAR(self->member);

// An attribute; -1 if it cannot be read as that.
int is_true(PyObject *owner, PyObject *name);
int get_number(PyObject *owner, PyObject *name, long long *number);

// Bytes that grow. -1 if there is no room for so many ``more``; whoever puts them there counts them into the size.
typedef struct { char *bytes; Py_ssize_t size, room; } Buffer;
int reserve(Buffer *buffer, Py_ssize_t more);
void drop(Buffer *buffer);
static inline void *end_of(const Buffer *buffer) { return buffer->bytes + buffer->size; }

PyObject *imported(const char *module, const char *name);  // what a Python module has under a name
int prepare_glue(void);  // once; -1, as those that add types

// The beginning of a type whose functions and methods have these names; COLLECTED if it may be part of a cycle.
#define OF_TYPE(name)                                                                                                 \
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rmqserver.core._core." #name, .tp_basicsize = sizeof(name),             \
                              .tp_new = make, .tp_dealloc = (destructor)dealloc, .tp_methods = methods
#define COLLECTED                                                                                                     \
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_traverse = (traverseproc)traverse, .tp_clear = (inquiry)clear

static inline int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

// --- copied_records.c

PyObject *plain_records(PyObject *module, PyObject *args);

// --- round_buffer.c

extern PyTypeObject RoundBufferType;

int add_round_buffer(PyObject *module);  // -1, as those below

// Sets the hosts of a message, which live as long as these. -1 if one is none.
int take_hosts(PyObject *born_host, PyObject *store_host, Message *message);

// The log offsets of ``round_append`` as a list of numbers.
PyObject *offset_list(PyObject *offsets);

// Returns 1 if the message was appended, 0 if not and nothing changed: it is doubtful (see round_buffer.py), or its topic has
// due times. With ``offsets``, the message has a batch as its body; they become new bytes, the log offsets of all its
// messages, native i64, and ``first`` is where the first went. May call Python, so the caller owns the message's memory.
int round_append(PyObject *round, PyObject *entry, PyObject *queue, const Message *message, Spot *first, PyObject **offsets);

// --- frame_cutter.c

// What may take frames before they become Python objects. Its type has TakerType as its base, and a taker begins with
// this. ``take`` returns 1 if it took the frame, 0 if not and nothing changed, else -1: the connection ends. It may call Python.
typedef struct Taker {
    PyObject_HEAD
    int (*take)(struct Taker *self, PyObject *owner, const Frame *frame);
    PyObject *admits;  // owned by the type that has this as its base
} Taker;

// 1 if whoever is to be asked lets the request pass, or nobody is; -1 with an exception.
int is_admitted(Taker *taker, PyObject *owner, long code, const Frame *frame);

extern PyTypeObject TakerType;

extern PyTypeObject FrameCutterType;

Py_ssize_t held_by(PyObject *cutter);  // bytes of the beginning of a frame
int feed(PyObject *cutter, Text data);  // as feed_untrusted

int add_frame_cutter(PyObject *module);

// --- plain_sends.c

int add_plain_sends(PyObject *module);

// --- plain_pulls.c

int add_plain_pulls(PyObject *module);

// --- header_blocks.c

int add_header_decoder(PyObject *module);

// --- plain_calls.c

PyObject *cut_send(PyObject *module, PyObject *args);
PyObject *cut_ack(PyObject *module, PyObject *data);

// --- plain_receives.c

PyObject *pack_received(PyObject *module, PyObject *args);

// --- turn.c

int prepare_turn(void);
PyObject *serve_ready(PyObject *module, PyObject *args);
PyObject *flush_dirty(PyObject *module, PyObject *args);
#endif
