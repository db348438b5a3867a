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
    PyObject *admits = Py_NewRef(taker->admits), *answer = NULL, *given[] = {
        owner, PyLong_FromLong(code), PyBytes_FromStringAndSize(frame->header.bytes, frame->header.size),
        PyBytes_FromStringAndSize(frame->body.bytes, frame->body.size),
    };
    if (given[1] && given[2] && given[3]) answer = PyObject_Vectorcall(admits, given, 4, NULL);
    for (int number = 1; number < 4; number++) Py_XDECREF(given[number]);
    int admitted = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    Py_DECREF(admits);
    return admitted;
}

typedef struct {
    PyObject_HEAD
    PyObject *on_frame, *owner, *takers;
    char *begun;  // the beginning of a frame, held_bytes of room
    Py_ssize_t room, held_bytes, wanted;
    char is_stopped, is_closed;
} FrameCutter;

static PyObject *check_lengths;  // of frames.py

// Keeps bytes for a later call. -1 with an exception.
static int keep(FrameCutter *self, Text data) {
    if (data.size > self->room - self->held_bytes) {
        Py_ssize_t room = self->held_bytes + data.size;
        if (self->wanted > room) room = self->wanted / 2 > room ? 2 * room : self->wanted;
        char *begun = PyMem_Realloc(self->begun, (size_t)room);
        if (!begun) {
            PyErr_NoMemory();
            return -1;
        }
        self->begun = begun;
        self->room = room;
    }
    memcpy(self->begun + self->held_bytes, data.bytes, (size_t)data.size);
    self->held_bytes += data.size;
    return 0;
}

static char *take_begun(FrameCutter *self) {
    char *begun = self->begun;
    self->begun = NULL;
    self->room = self->held_bytes = 0;
    return begun;
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
        Frame frame = {{at + HEAD_SIZE, header_size}, {at + HEAD_SIZE + header_size, total - 4 - header_size}, codec};
        at += 4 + total;
        int taken = is_taken(self, &frame);
        if (taken < 0 || (!taken && call_on_frame(self, &frame))) return -1;
    }
    return at == end || self->is_closed ? 0 : keep(self, (Text){at, end - at});
}

Py_ssize_t held_by(PyObject *cutter) { return ((FrameCutter *)cutter)->held_bytes; }

int feed(PyObject *cutter, Text data) {
    FrameCutter *self = (FrameCutter *)cutter;
    self->is_stopped = self->is_closed;
    if (!self->held_bytes) return cut(self, data);
    int failed = keep(self, data);
    if (failed || self->held_bytes < self->wanted) return failed;
    // Not the cutter's any more: what on_frame calls may feed or close the cutter.
    Text begun = {self->begun, self->held_bytes};
    take_begun(self);
    failed = cut(self, begun);
    PyMem_Free((char *)begun.bytes);
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
    PyMem_Free(take_begun(self));
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
    PyMem_Free(self->begun);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"feed_untrusted", feed_untrusted, METH_O, NULL},
    {"hand_to", (PyCFunction)hand_to, METH_VARARGS, NULL},
    {"close", (PyCFunction)close_it, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef members[] = {
    {"held_bytes", T_PYSSIZET, offsetof(FrameCutter, held_bytes), READONLY, NULL},
    {"is_stopped", T_BOOL, offsetof(FrameCutter, is_stopped), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject FrameCutterType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "rmqserver.core._core.FrameCutter",
    .tp_basicsize = sizeof(FrameCutter),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = make,
    .tp_dealloc = (destructor)dealloc,
    .tp_traverse = (traverseproc)traverse,
    .tp_clear = (inquiry)clear,
    .tp_methods = methods,
    .tp_members = members,
};

int add_frame_cutter(PyObject *module) {
    PyObject *frames = PyImport_ImportModule("rmqproto.wire.frames");
    check_lengths = frames ? PyObject_GetAttrString(frames, "check_lengths_untrusted") : NULL;
    Py_XDECREF(frames);
    return check_lengths && !PyType_Ready(&TakerType) ? PyModule_AddType(module, &FrameCutterType) : -1;
}
