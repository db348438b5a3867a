// The native FrameCutter: it has the contract of rmqproto.wire.frames, and offers frames to its takers first.
#include "glue.h"
#include <structmember.h>

#define HEAD_SIZE 8  // total size u32 | header codec u8, header size u24
#define PEEKED_AT 8  // in the header, behind {"code":
#define TOTAL_MAX 16777212  // what frames.py refuses is checked there, too

static PyMemberDef taker_members[] = {{"admits", T_OBJECT, offsetof(Taker, admits), 0, NULL}, {NULL, 0, 0, 0, NULL}};

PyTypeObject TakerType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "rmqserver.core._core.Taker",
    .tp_basicsize = sizeof(Taker),
    .tp_members = taker_members,
};

int is_admitted(Taker *taker, PyObject *owner, long code, const Frame *frame) {
    if (!taker->admits || Py_IsNone(taker->admits)) return 1;
    PyObject *admits = Py_NewRef(taker->admits);
    PyObject *answer = PyObject_CallFunction(admits, "Oly#y#", owner, code, frame->header.bytes, frame->header.size,
                                             frame->body.bytes, frame->body.size);
    int admitted = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    Py_DECREF(admits);
    return admitted;
}

typedef struct {
    PyObject_HEAD
    PyObject *on_frame, *owner, *takers;
    Buffer begun;  // the beginning of a frame, of which so much is ``wanted``
    Py_ssize_t wanted;
    char is_stopped, is_closed;
} FrameCutter;

static PyObject *check_lengths;  // of frames.py

// Keeps bytes for a later call. -1 with an exception.
static int keep(FrameCutter *self, Text data) {
    if (reserve(&self->begun, data.size)) return -1;
    memcpy(end_of(&self->begun), data.bytes, (size_t)data.size);
    self->begun.size += data.size;
    return 0;
}

// 1 if a taker took the frame, 0 if none did, -1 with an exception.
static int is_taken(FrameCutter *self, const Frame *frame) {
    int taken = 0;
    PyObject *takers = Py_NewRef(self->takers), *owner = Py_NewRef(self->owner);
    for (Py_ssize_t number = 0; !taken && number < PyList_GET_SIZE(takers); number++) {
        PyObject *taker = Py_NewRef(PyList_GET_ITEM(takers, number));
        if (Py_TYPE(taker)->tp_base == &TakerType) {
            taken = ((Taker *)taker)->take((Taker *)taker, owner, frame);
        } else {
            PyErr_Format(PyExc_TypeError, "a taker of frames is wanted, not %.100s", Py_TYPE(taker)->tp_name);
            taken = -1;
        }
        Py_DECREF(taker);
    }
    Py_DECREF(owner);
    Py_DECREF(takers);
    return taken;
}

// -1 with an exception.
static int call_on_frame(FrameCutter *self, const Frame *frame) {
    uint32_t peeked = 0;
    if (frame->header.size + frame->body.size >= PEEKED_AT + 4) peeked = u32_at(frame->header.bytes + PEEKED_AT);
    PyObject *on_frame = Py_NewRef(self->on_frame), *owner = Py_NewRef(self->owner), *done = NULL, *given[] = {
        owner, PyLong_FromLong(frame->codec), PyLong_FromUnsignedLong(peeked),
        PyBytes_FromStringAndSize(frame->header.bytes, frame->header.size),
        PyBytes_FromStringAndSize(frame->body.bytes, frame->body.size),
    };
    if (given[1] && given[2] && given[3] && given[4]) done = PyObject_Vectorcall(on_frame, given, 5, NULL);
    for (int number = 0; number < 5; number++) Py_XDECREF(given[number]);
    Py_DECREF(on_frame);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

// Cuts the frames, and keeps what is left. -1 with an exception.
static int cut(FrameCutter *self, Text data) {
    const char *at = data.bytes, *end = at + data.size;
    self->wanted = HEAD_SIZE;
    while (end - at >= HEAD_SIZE && !self->is_stopped) {
        uint32_t total = u32_at(at), mark = u32_at(at + 4), header_size = mark & 0xFFFFFF;
        if (total > TOTAL_MAX || total < 4 || header_size > total - 4) {
            PyObject *checked = PyObject_CallFunction(check_lengths, "IIy#", total, header_size, at, end - at);
            if (checked) PyErr_SetString(PyExc_SystemError, "frames.py takes lengths that are refused here");
            Py_XDECREF(checked);
            return -1;
        }
        if (end - at - 4 < (ptrdiff_t)total) {
            self->wanted = 4 + (Py_ssize_t)total;
            break;
        }
        int codec = (int)(mark >> 24);
        Frame frame = {{at + HEAD_SIZE, header_size}, {at + HEAD_SIZE + header_size, total - 4 - header_size}, codec, -1};
        if (!codec) frame.code = begun_code(frame.header);
        at += 4 + total;
        int taken = is_taken(self, &frame);
        if (taken < 0 || (!taken && call_on_frame(self, &frame))) return -1;
    }
    return at == end || self->is_closed ? 0 : keep(self, (Text){at, end - at});
}

Py_ssize_t held_by(PyObject *cutter) { return ((FrameCutter *)cutter)->begun.size; }

int feed(PyObject *cutter, Text data) {
    FrameCutter *self = (FrameCutter *)cutter;
    self->is_stopped = self->is_closed;
    if (!self->begun.size) return cut(self, data);
    int failed = keep(self, data);
    if (failed || self->begun.size < self->wanted) return failed;
    Buffer begun = self->begun;  // not the cutter's any more: what on_frame calls may feed or close the cutter
    self->begun = (Buffer){NULL, 0, 0};
    failed = cut(self, (Text){begun.bytes, begun.size});
    drop(&begun);
    return failed;
}

static PyObject *feed_untrusted(PyObject *self, PyObject *given) {
    if (!PyBytes_Check(given)) return PyErr_Format(PyExc_TypeError, "bytes are wanted, not %.100s", Py_TYPE(given)->tp_name);
    if (feed(self, text_of(given))) return NULL;
    Py_RETURN_NONE;
}

static PyObject *hand_to(FrameCutter *self, PyObject *args) {
    PyObject *on_frame, *takers;
    if (!PyArg_ParseTuple(args, "OO!", &on_frame, &PyList_Type, &takers)) return NULL;
    Py_XSETREF(self->on_frame, Py_NewRef(on_frame));
    Py_XSETREF(self->takers, Py_NewRef(takers));
    Py_RETURN_NONE;
}

static PyObject *close_it(FrameCutter *self, PyObject *Py_UNUSED(none)) {
    self->is_stopped = self->is_closed = 1;
    drop(&self->begun);
    Py_XSETREF(self->owner, Py_NewRef(Py_None));
    Py_RETURN_NONE;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *on_frame, *owner, *takers;
    if (names && PyDict_GET_SIZE(names)) return PyErr_Format(PyExc_TypeError, "FrameCutter takes no keywords");
    if (!PyArg_ParseTuple(args, "OOO!", &on_frame, &owner, &PyList_Type, &takers)) return NULL;
    FrameCutter *self = (FrameCutter *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->on_frame = Py_NewRef(on_frame);
    self->owner = Py_NewRef(owner);
    self->takers = Py_NewRef(takers);
    return (PyObject *)self;
}

#define OWNED(X) X(on_frame) X(owner) X(takers)

static int traverse(FrameCutter *self, visitproc visit, void *arg) {
    OWNED(VISIT)
    return 0;
}

// What else is collected may still call the cutter: it is closed.
static int clear(FrameCutter *self) {
    self->is_stopped = self->is_closed = 1;
    OWNED(CLEAR)
    return 0;
}

static void dealloc(FrameCutter *self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    drop(&self->begun);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"feed_untrusted", feed_untrusted, METH_O, NULL},
    {"hand_to", (PyCFunction)hand_to, METH_VARARGS, NULL},
    {"close", (PyCFunction)close_it, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef members[] = {
    {"held_bytes", T_PYSSIZET, offsetof(FrameCutter, begun.size), READONLY, NULL},
    {"is_stopped", T_BOOL, offsetof(FrameCutter, is_stopped), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject FrameCutterType = {OF_TYPE(FrameCutter), COLLECTED, .tp_members = members};

int add_frame_cutter(PyObject *module) {
    check_lengths = imported("rmqproto.wire.frames", "check_lengths_untrusted");
    return check_lengths && !PyType_Ready(&TakerType) ? PyModule_AddType(module, &FrameCutterType) : -1;
}
