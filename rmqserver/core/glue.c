// What the files of the glue layer share; glue.h says what each function does.
#include "glue.h"

static PyObject *extend_hash_utf8;  // of java_hash.py

int take_texts(PyObject *given, Text *texts, Py_ssize_t max, int may_lack) {
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) > max) {
        PyErr_Format(PyTuple_Check(given) ? PyExc_ValueError : PyExc_TypeError, "a tuple of %zd at most is wanted", max);
        return -1;
    }
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(given); number++) {
        PyObject *text = PyTuple_GET_ITEM(given, number);
        if (PyBytes_Check(text)) texts[number] = text_of(text);
        else if (may_lack && Py_IsNone(text)) texts[number] = (Text){NULL, 0};
        else return PyErr_SetString(PyExc_TypeError, "a tuple of bytes is wanted"), -1;
    }
    return 0;
}

int make_names(const Name *names, size_t count) {
    for (size_t number = 0; number < count; number++)
        if (!(*names[number].name = PyUnicode_InternFromString(names[number].text))) return -1;
    return 0;
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

int reserve(Buffer *buffer, Py_ssize_t more) {
    if (buffer->room - buffer->size >= more) return 0;
    Py_ssize_t room = buffer->room ? buffer->room : 512;
    if (more > PY_SSIZE_T_MAX / 4 - buffer->size) return PyErr_NoMemory(), -1;
    while (room - buffer->size < more) room *= 2;
    char *bytes = PyMem_Realloc(buffer->bytes, (size_t)room);
    if (!bytes) return PyErr_NoMemory(), -1;
    buffer->bytes = bytes;
    buffer->room = room;
    return 0;
}

void drop(Buffer *buffer) {
    PyMem_Free(buffer->bytes);
    *buffer = (Buffer){NULL, 0, 0};
}

int odd_hash(uint32_t *hash, Text text) {
    PyObject *made = PyObject_CallFunction(extend_hash_utf8, "Iy#", (unsigned int)*hash, text.bytes, text.size);
    if (!made) return -1;
    *hash = (uint32_t)PyLong_AsUnsignedLong(made);
    Py_DECREF(made);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *imported(const char *module, const char *name) {
    PyObject *found = PyImport_ImportModule(module), *value = found ? PyObject_GetAttrString(found, name) : NULL;
    Py_XDECREF(found);
    return value;
}

int prepare_glue(void) {
    extend_hash_utf8 = imported("rmqproto.java.java_hash", "extend_hash_utf8");
    return extend_hash_utf8 ? 0 : -1;
}
