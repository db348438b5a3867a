// The turn of the loop over plain connections: reads what came, and sends what is queued. simple.py says what each function
// does. What a plain connection cannot do at once is left to its own methods, as is all of the others.
#include "glue.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define PIECES_MAX 64  // of what is sent at once

#define NAMES(X) X(state) X(pump) X(cutter) X(held_bytes) X(last_active_s) X(serve) X(fail) X(settle) X(out) X(queued_bytes) \
    X(fd) X(flush)
static struct { NAMES(MEMBER_OF) } names;

typedef struct { PyObject *state, *pump, *buffer; Py_buffer view; } Turn;  // the first two are those of plain connections

// 1 if it is plain: then ``part`` is its attribute of that name. 0 if not, -1 with an exception.
static int get_of_plain(PyObject *connection, const Turn *turn, PyObject *name, PyObject **part) {
    PyObject *state = PyObject_GetAttr(connection, names.state), *pump = PyObject_GetAttr(connection, names.pump);
    int is_plain = state && pump ? state == turn->state && pump == turn->pump : -1;
    Py_XDECREF(state);
    Py_XDECREF(pump);
    *part = is_plain > 0 ? PyObject_GetAttr(connection, name) : NULL;
    return is_plain && !*part ? -1 : is_plain;
}

// Calls a method whose result is of no use. -1 with an exception.
static int call(PyObject *owner, PyObject *name, PyObject *given, PyObject *more) {
    PyObject *done = PyObject_CallMethodObjArgs(owner, name, given, more, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

// The connection deals with the exception, unless it is one that ends the process.
static int fail(PyObject *connection) {
    PyObject *kind, *error, *trace;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    int failed = call(connection, names.fail, error, NULL);
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    return failed;
}

// 1 if that is done; 0 if the connection has to read.
static int read_plain(PyObject *connection, PyObject *cutter, int fd, const Py_buffer *buffer) {
    long long held_bytes;
    if (!Py_IS_TYPE(cutter, &FrameCutterType)) return 0;
    ssize_t got = recv(fd, buffer->buf, (size_t)buffer->len, MSG_DONTWAIT);
    if (!got) return 0;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 1;
    if (got < 0) PyErr_SetFromErrno(PyExc_OSError);
    if ((got < 0 || feed(cutter, (Text){buffer->buf, got})) && fail(connection)) return -1;
    if (get_number(connection, names.held_bytes, &held_bytes)) return -1;
    return held_bytes != held_by(cutter) && call(connection, names.settle, NULL, NULL) ? -1 : 1;
}

static int serve(PyObject *connection, PyObject *event, const Turn *turn, double now_s) {
    PyObject *active_s = PyFloat_FromDouble(now_s), *cutter;
    int done = active_s ? PyObject_SetAttr(connection, names.last_active_s, active_s) : -1;
    Py_XDECREF(active_s);
    long fd = PyLong_AsLong(PyTuple_GET_ITEM(event, 0)), what = PyLong_AsLong(PyTuple_GET_ITEM(event, 1));
    if (done || PyErr_Occurred()) return -1;
    done = get_of_plain(connection, turn, names.cutter, &cutter);
    if (done > 0) done = read_plain(connection, cutter, (int)fd, &turn->view);
    Py_XDECREF(cutter);
    return done ? done : call(connection, names.serve, what == EPOLLIN ? Py_False : Py_True, turn->buffer);
}

static Py_ssize_t serve_all(PyObject *events, Py_ssize_t done, PyObject *connections, const Turn *turn, double ends_s) {
    for (; done < PyList_GET_SIZE(events); done++) {
        double now_s = (double)now_ns() / 1e9;
        if (done && now_s > ends_s) break;
        PyObject *event = PyList_GET_ITEM(events, done);
        if (!PyTuple_Check(event) || PyTuple_GET_SIZE(event) != 2) {
            PyErr_SetString(PyExc_TypeError, "an event is a descriptor and what it is ready for");
            return -1;
        }
        PyObject *connection = PyDict_GetItemWithError(connections, PyTuple_GET_ITEM(event, 0));
        if (!connection) return PyErr_Occurred() ? -1 : done;
        Py_INCREF(event);
        Py_INCREF(connection);
        int failed = serve(connection, event, turn, now_s) < 0;
        Py_DECREF(event);
        Py_DECREF(connection);
        if (failed) return -1;
    }
    return done;
}

PyObject *serve_ready(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *events, *connections;
    Py_ssize_t done;
    double ends_s;
    Turn turn;
    if (!PyArg_ParseTuple(args, "O!nO!OOOd", &PyList_Type, &events, &done, &PyDict_Type, &connections, &turn.state,
                          &turn.pump, &turn.buffer, &ends_s)) return NULL;
    if (done < 0) return PyErr_Format(PyExc_ValueError, "no event has a number below 0");
    if (PyObject_GetBuffer(turn.buffer, &turn.view, PyBUF_WRITABLE)) return NULL;
    done = serve_all(events, done, connections, &turn, ends_s);
    PyBuffer_Release(&turn.view);
    return done < 0 ? NULL : PyLong_FromSsize_t(done);
}

// Sends all that is queued by one call. Returns how many bytes the kernel took, -1 if they were all.
static Py_ssize_t send_out(PyObject *out, int fd) {
    struct iovec parts[PIECES_MAX];
    Py_ssize_t count = PyList_CheckExact(out) ? PyList_GET_SIZE(out) : 0, size = 0;
    if (!count || count > PIECES_MAX) return 0;
    for (Py_ssize_t number = 0; number < count; number++) {
        PyObject *piece = PyList_GET_ITEM(out, number);
        if (!PyBytes_Check(piece)) return 0;
        parts[number] = (struct iovec){PyBytes_AS_STRING(piece), (size_t)PyBytes_GET_SIZE(piece)};
        size += PyBytes_GET_SIZE(piece);
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent == size ? -1 : sent < 0 ? 0 : sent;
}

static int flush(PyObject *connection, const Turn *turn) {
    PyObject *out;
    long long fd;
    Py_ssize_t sent = 0;
    int failed = get_of_plain(connection, turn, names.out, &out) < 0 || (out && get_number(connection, names.fd, &fd));
    if (out && !failed) sent = send_out(out, (int)fd);
    PyObject *number = failed ? NULL : PyLong_FromSsize_t(sent < 0 ? 0 : sent);
    if (!number) failed = 1;
    else if (sent >= 0) failed = call(connection, names.flush, number, NULL);
    else failed = PyList_SetSlice(out, 0, PyList_GET_SIZE(out), NULL) || PyObject_SetAttr(connection, names.queued_bytes, number);
    Py_XDECREF(number);
    Py_XDECREF(out);
    return failed ? -1 : 0;
}

PyObject *flush_dirty(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *dirty;
    Turn turn;
    if (!PyArg_ParseTuple(args, "O!OO", &PyList_Type, &dirty, &turn.state, &turn.pump)) return NULL;
    for (Py_ssize_t number = 0; number < PyList_GET_SIZE(dirty); number++) {
        PyObject *connection = Py_NewRef(PyList_GET_ITEM(dirty, number));
        int failed = flush(connection, &turn);
        Py_DECREF(connection);
        if (failed) return NULL;
    }
    Py_RETURN_NONE;
}

int prepare_turn(void) {
    static const Name all[] = {NAMES(NAME_OF)};
    return make_names(all, sizeof all / sizeof *all);
}
