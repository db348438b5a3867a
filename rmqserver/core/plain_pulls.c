// Serves pulls by the plans that Python has left: units and records go from memory into the answer. simple.py says what a
// plan is. Until an answer is whole, nothing is changed; what is not at hand is left to Python, and so is every OSError.
#define _GNU_SOURCE
#include "glue.h"
#include <structmember.h>
#include <sys/uio.h>

#define RECORDS_MAX 128
#define UNITS_MAX 1024
#define PIECES 5
#define PLANS_MAX 4096
#define GAP_MAX 4096  // a call to the kernel costs as much as these bytes
#define RECORD_SIZE_MAX (64 << 20)
#define FILES 64
#define HEAD_SIZE 8
#define PULL_MESSAGE 11
#define QUEUE_OFFSET_AT 20  // of a record

enum { QUEUE, TAKEN, ANSWER, COUNT_MAX, UNIT_COUNT, SIZE_MAX_BYTES, MEMORY_BYTES, CODES };  // the parts of a plan

typedef struct { PyObject *segments, *file; int64_t base, size; } OpenFile;  // segments is NULL if there is none
typedef struct {
    Taker taker;
    PyObject *log, *plans;
    OpenFile files[FILES];  // read a moment ago: a look-up in the store's cache costs a microsecond
    int64_t hot_bytes, kept_ns, kept_since_ns;
} PlainPulls;

typedef struct { int64_t count, unit_count, size, memory, end; Text codes; } Limits;  // codes are native i64, or NULL for all
typedef struct { int64_t log_offset; int32_t size; } Chosen;
typedef struct {
    int64_t low, high, hot_from;
    Py_ssize_t unit_count, seen, count, size;
    char units[UNITS_MAX * UNIT_SIZE];
    Chosen chosen[RECORDS_MAX];
} Look;

#define NAMES(X) X(min_offset) X(max_offset) X(tail_first) X(tail) X(is_deleted) X(segments) X(bases) X(file) \
    X(file_size_bytes) X(fd) X(written_offset) X(confirmed_offset) X(uncached_offset) X(send)
static struct { NAMES(MEMBER_OF) } names;

// -1 with an exception, too.
static int64_t number_of(PyObject *object, PyObject *name) {
    long long number;
    return get_number(object, name, &number) ? -1 : number;
}

static void drop_file(OpenFile *file) {
    Py_CLEAR(file->segments);
    Py_CLEAR(file->file);
}

// --- reading: each returns 1, 0 if it is not at hand, -1 with an exception ---------------------------------------------

// Finds the file of a SegmentedFile in which ``offset`` of its stream lies.
static int find_file(PlainPulls *self, PyObject *segments, int64_t offset, OpenFile **found) {
    int64_t size = number_of(segments, names.file_size_bytes);
    if (size <= 0) return PyErr_Occurred() ? -1 : 0;
    int64_t base = offset - offset % size;
    OpenFile *file = *found = &self->files[((uintptr_t)segments / 16 + (uint64_t)(base / size)) % FILES];
    if (file->segments == segments && file->base == base && file->size == size) return 1;
    PyObject *number = PyLong_FromLongLong(base);
    PyObject *opened = number ? PyObject_CallMethodOneArg(segments, names.file, number) : NULL;
    Py_XDECREF(number);
    if (!opened) return -1;
    drop_file(file);
    *file = (OpenFile){Py_NewRef(segments), opened, base, size};
    return 1;
}

static int read_into(const OpenFile *file, struct iovec *parts, int count, int64_t size, int64_t offset, int is_hot) {
#ifdef RWF_NOWAIT
    int64_t fd = number_of(file->file, names.fd), at = offset - file->base;
    if (fd == -1 && PyErr_Occurred()) return -1;
    return fd >= 0 && fd <= INT32_MAX && preadv2((int)fd, parts, count, at, is_hot ? 0 : RWF_NOWAIT) == size;
#else
    (void)file, (void)parts, (void)count, (void)size, (void)offset, (void)is_hot;
    return 0;
#endif
}

// Copies ``count`` units of the tail, ``skipped`` behind its begin.
static int copy_from_tail(PyObject *queue, int64_t skipped, Py_ssize_t count, Look *look) {
    PyObject *tail = PyObject_GetAttr(queue, names.tail);
    if (!tail) return -1;
    int64_t held = PyByteArray_CheckExact(tail) ? PyByteArray_GET_SIZE(tail) / UNIT_SIZE : 0;
    int is_there = skipped <= held && count <= held - skipped;
    if (is_there) memcpy(look->units, PyByteArray_AS_STRING(tail) + skipped * UNIT_SIZE, (size_t)count * UNIT_SIZE);
    Py_DECREF(tail);
    look->unit_count = count;
    return is_there;
}

// As ``ConsumeQueue.units``, unless some lie in a file and some in the tail.
static int read_units(PlainPulls *self, PyObject *queue, int64_t first, Py_ssize_t count, Look *look) {
    int64_t tail_first = number_of(queue, names.tail_first), at = first * UNIT_SIZE;
    if (tail_first < 0) return PyErr_Occurred() ? -1 : 0;
    if (count > look->high - first) count = (Py_ssize_t)(look->high - first);
    if (first >= tail_first) return copy_from_tail(queue, first - tail_first, count, look);
    if (count > tail_first - first) return 0;
    PyObject *segments = PyObject_GetAttr(queue, names.segments);
    if (!segments) return -1;
    OpenFile *file;
    int done = find_file(self, segments, at, &file);
    Py_DECREF(segments);
    if (done <= 0) return done;
    int64_t left = (file->size - (at - file->base)) / UNIT_SIZE;
    look->unit_count = count < left ? count : (Py_ssize_t)left;
    struct iovec part = {look->units, (size_t)look->unit_count * UNIT_SIZE};
    return read_into(file, &part, 1, (int64_t)part.iov_len, at, 0);
}

// Reads the records, one behind the other. Neighbours, and those with small gaps, are read by one call.
static int read_records(PlainPulls *self, PyObject *segments, const Look *look, char *to) {
    static char gaps[GAP_MAX];  // what lies in between, of no use
    struct iovec parts[2 * RECORDS_MAX];
    for (Py_ssize_t first = 0, next; first < look->count; first = next) {
        int64_t start = look->chosen[first].log_offset, end = start;
        OpenFile *file;
        int count = 0, done = find_file(self, segments, start, &file);
        if (done <= 0) return done;
        for (next = first; next < look->count; next++) {
            const Chosen *record = &look->chosen[next];
            int64_t gap = record->log_offset - end;
            if (gap < 0 || gap > GAP_MAX || record->log_offset - file->base > file->size - record->size) break;
            if (gap) parts[count++] = (struct iovec){gaps, (size_t)gap};
            if (count && !gap) parts[count - 1].iov_len += (size_t)record->size;
            else parts[count++] = (struct iovec){to, (size_t)record->size};
            to += record->size;
            end = record->log_offset + record->size;
        }
        if (next == first) return 0;  // it would go past the end of its file
        done = read_into(file, parts, count, end - start, start, start >= look->hot_from);
        if (done <= 0) return done;
    }
    return 1;
}

// --- a pull ------------------------------------------------------------------------------------------------------------

// 0 if a pull asks for more than can be looked at here.
static int are_small(const Limits *limits) {
    return limits->count > 0 && limits->count <= RECORDS_MAX && limits->unit_count > 0 && limits->unit_count <= UNITS_MAX &&
           limits->size >= 0 && limits->size <= INT32_MAX && limits->memory >= 0;
}

// Selects records as the store's reader does, while nothing but counts, sizes and tag codes matters. 0 if something else does.
static int select_records(const Limits *limits, Look *look, int64_t log_min, int64_t log_end) {
    Text codes = limits->codes;
    look->count = look->size = 0;
    for (look->seen = 0; look->seen < look->unit_count; look->seen++) {
        const char *unit = look->units + look->seen * UNIT_SIZE;
        int64_t log_offset = i64_at(unit), code = i64_at(unit + 12);
        int32_t size = (int32_t)u32_at(unit + 8);
        if (size <= 0 || size > RECORD_SIZE_MAX || log_offset < log_end - limits->memory) return 0;
        if (log_offset < log_min || log_offset > log_end - size || log_offset > limits->end - size) return 0;
        if (look->count && (look->count >= limits->count || look->size + size > limits->size)) break;
        ptrdiff_t at = 0;
        while (at < codes.size && memcmp(codes.bytes + at, &code, sizeof code)) at += (ptrdiff_t)sizeof code;
        if (codes.bytes && at >= codes.size) continue;
        look->chosen[look->count++] = (Chosen){log_offset, size};
        look->size += size;
    }
    return look->count > 0;
}

// Finds the records of a pull. 0 if there are none, or if Python must look.
static int look_for(PlainPulls *self, PyObject *segments, PyObject *queue, int64_t first, const Limits *limits, Look *look) {
    int is_gone = is_true(queue, names.is_deleted);
    look->low = is_gone ? -1 : number_of(queue, names.min_offset);
    look->high = look->low < 0 ? -1 : number_of(queue, names.max_offset);
    if (look->high < 0) return PyErr_Occurred() ? -1 : 0;
    if (first < look->low || first >= look->high) return 0;
    int done = read_units(self, queue, first, (Py_ssize_t)limits->unit_count, look);
    if (done <= 0) return done;

    PyObject *const asked[] = {names.confirmed_offset, names.written_offset, names.uncached_offset};
    int64_t log[3];
    for (int number = 0; number < 3; number++)
        if ((log[number] = number_of(self->log, asked[number])) < 0) return PyErr_Occurred() ? -1 : 0;
    look->hot_from = log[2] > log[1] - self->hot_bytes ? log[2] : log[1] - self->hot_bytes;
    PyObject *bases = PyObject_GetAttr(segments, names.bases);
    if (!bases) return -1;
    int has_files = PyList_CheckExact(bases) && PyList_GET_SIZE(bases);
    int64_t log_min = has_files ? PyLong_AsLongLong(PyList_GET_ITEM(bases, 0)) : 0;
    Py_DECREF(bases);
    return has_files ? select_records(limits, look, log_min, log[0]) : 0;
}

// The frame, with room for the records behind its header.
static PyObject *begin_answer(PyObject *pieces, const Look *look, const Pull *pull, char **records) {
    const int64_t numbers[PIECES] = {look->high, look->low, pull->queue_offset + look->seen, pull->opaque};
    char header[PULL_HEADER_MAX], *to = header;
    for (int number = 0; number < PIECES; number++) {
        to = put_text(to, text_of(PyTuple_GET_ITEM(pieces, number)));
        if (number < PIECES - 1) to = put_number(to, numbers[number]);
    }
    Py_ssize_t size = to - header;
    PyObject *answer = PyBytes_FromStringAndSize(NULL, HEAD_SIZE + size + look->size);
    if (!answer) return NULL;
    uint8_t *head = (uint8_t *)PyBytes_AS_STRING(answer);
    head = put_big_endian(head, (uint64_t)(4 + size + look->size), 4);
    head = put_big_endian(head, (uint64_t)size, 4);
    memcpy(head, header, (size_t)size);
    *records = (char *)head + size;
    return answer;
}

// Counts the pull and sends the answer. -1 with an exception.
static int finish(PyObject *owner, PyObject *plan, const Look *look, const Pull *pull, PyObject *answer, int64_t started_ns) {
    PyObject *told = PyObject_CallFunction(PyTuple_GET_ITEM(plan, TAKEN), "LnnLL", (now_ns() - started_ns) / 1000000,
                                           look->count, look->size, pull->queue_offset + look->seen, pull->commit_offset);
    PyObject *sent = told ? PyObject_CallMethodOneArg(owner, names.send, answer) : NULL;
    Py_XDECREF(told);
    Py_XDECREF(sent);
    return sent ? 1 : -1;
}

// Finds and reads the records of a plan, or, without one, of a queue: then ``answer`` has nothing else.
static int find(PlainPulls *self, PyObject *plan, PyObject *queue, const Pull *pull, const Limits *limits, Look *look,
                PyObject **answer) {
    char *records;
    PyObject *segments = PyObject_GetAttr(self->log, names.segments);
    int done = segments ? look_for(self, segments, queue, pull->queue_offset, limits, look) : -1;
    *answer = NULL;
    if (done > 0) {
        *answer = plan ? begin_answer(PyTuple_GET_ITEM(plan, ANSWER), look, pull, &records)
                       : PyBytes_FromStringAndSize(NULL, look->size);
        if (!plan && *answer) records = PyBytes_AS_STRING(*answer);
        done = *answer ? read_records(self, segments, look, records) : -1;
    }
    if (done < 0 && PyErr_ExceptionMatches(PyExc_OSError)) {
        PyErr_Clear();
        done = 0;
    }
    if (done <= 0) Py_CLEAR(*answer);
    Py_XDECREF(segments);
    return done;
}

static void read_limits(PyObject *plan, Limits *limits) {
    PyObject *codes = PyTuple_GET_ITEM(plan, CODES);
    *limits = (Limits){
        PyLong_AsLongLong(PyTuple_GET_ITEM(plan, COUNT_MAX)), PyLong_AsLongLong(PyTuple_GET_ITEM(plan, UNIT_COUNT)),
        PyLong_AsLongLong(PyTuple_GET_ITEM(plan, SIZE_MAX_BYTES)), PyLong_AsLongLong(PyTuple_GET_ITEM(plan, MEMORY_BYTES)),
        INT64_MAX, Py_IsNone(codes) ? (Text){NULL, 0} : text_of(codes),
    };
}

static int serve(PlainPulls *self, PyObject *owner, PyObject *plan, const Pull *pull, int64_t started_ns) {
    Look look;
    Limits limits;
    PyObject *answer;
    read_limits(plan, &limits);
    int done = find(self, plan, PyTuple_GET_ITEM(plan, QUEUE), pull, &limits, &look, &answer);
    if (done > 0) done = finish(owner, plan, &look, pull, answer, started_ns);
    Py_XDECREF(answer);
    return done;
}

static void forget_all(PlainPulls *self) {
    PyDict_Clear(self->plans);
    for (int number = 0; number < FILES; number++) drop_file(&self->files[number]);
}

// From time to time nothing is kept any more: not even a file, which may be removed.
static int is_old(PlainPulls *self, int64_t ns) {
    if (ns - self->kept_since_ns < self->kept_ns) return 0;
    self->kept_since_ns = ns;
    forget_all(self);
    return 1;
}

static int take_pull(Taker *taker, PyObject *owner, const Frame *frame) {
    PlainPulls *self = (PlainPulls *)taker;
    char key[PULL_HEADER_MAX];
    Pull pull;
    if (frame->codec || (frame->code >= 0 && frame->code != PULL_MESSAGE) || !PyDict_GET_SIZE(self->plans)) return 0;
    int64_t started_ns = now_ns();
    if (is_old(self, started_ns)) return 0;
    ptrdiff_t size = cut_pull(frame->header, key, &pull);
    PyObject *wanted = size ? PyBytes_FromStringAndSize(key, size) : NULL;
    if (!wanted) return size ? -1 : 0;
    PyObject *plan = PyDict_GetItemWithError(self->plans, wanted);
    Py_DECREF(wanted);
    if (!plan) return PyErr_Occurred() ? -1 : 0;
    Py_INCREF(plan);  // it may be forgotten meanwhile
    int done = is_admitted(taker, owner, PULL_MESSAGE, frame);
    if (done > 0) done = serve(self, owner, plan, &pull, started_ns);
    Py_DECREF(plan);
    return done;
}

// --- the type ----------------------------------------------------------------------------------------------------------

// 0 if it asks for more than can be looked at here, -1 with an exception.
static int is_plan(PyObject *plan) {
    PyObject *queue, *taken, *pieces, *texts[PIECES], *codes;
    long long numbers[4], size = (PIECES - 1) * NUMBER_SIZE_MAX;
    if (!PyArg_ParseTuple(plan, "OOO!LLLLO;this is no plan", &queue, &taken, &PyTuple_Type, &pieces, &numbers[0], &numbers[1],
                          &numbers[2], &numbers[3], &codes) ||
        !PyArg_ParseTuple(pieces, "SSSSS", &texts[0], &texts[1], &texts[2], &texts[3], &texts[4])) return -1;
    for (int number = 0; number < PIECES; number++) size += PyBytes_GET_SIZE(texts[number]);
    const Limits limits = {numbers[0], numbers[1], numbers[2], numbers[3], INT64_MAX, {NULL, 0}};
    return are_small(&limits) && size <= PULL_HEADER_MAX &&
           (Py_IsNone(codes) || (PyBytes_Check(codes) && PyBytes_GET_SIZE(codes) % 8 == 0));
}

// Whether the records have the queue offsets that their units stand for.
static int are_a_run(const Look *look, const char *at, int64_t queue_offset) {
    for (Py_ssize_t number = 0; number < look->count; at += look->chosen[number++].size)
        if (look->chosen[number].size < RECORD_SIZE_MIN || i64_at(at + QUEUE_OFFSET_AT) != queue_offset + number) return 0;
    return 1;
}

static PyObject *read_run(PyObject *self, PyObject *args) {
    PyObject *queue, *records;
    long long queue_offset, numbers[4], end;
    Look look;
    if (!PyArg_ParseTuple(args, "OL(LLLL)L", &queue, &queue_offset, &numbers[0], &numbers[1], &numbers[2], &numbers[3], &end))
        return NULL;
    const Limits limits = {numbers[0], numbers[1], numbers[2], numbers[3], end, {NULL, 0}};
    const Pull pull = {.queue_offset = queue_offset};
    is_old((PlainPulls *)self, now_ns());
    int done = are_small(&limits) ? find((PlainPulls *)self, NULL, queue, &pull, &limits, &look, &records) : 0;
    if (done <= 0) return done ? NULL : Py_NewRef(Py_None);
    PyObject *sizes = PyList_New(look.count);
    for (Py_ssize_t number = 0; sizes && number < look.count; number++) {
        PyObject *size = PyLong_FromLong(look.chosen[number].size);
        if (size) PyList_SET_ITEM(sizes, number, size);
        else Py_CLEAR(sizes);
    }
    if (!sizes) {
        Py_DECREF(records);
        return NULL;
    }
    return Py_BuildValue("NNO", records, sizes, are_a_run(&look, PyBytes_AS_STRING(records), queue_offset) ? Py_True : Py_False);
}

static PyObject *keep(PyObject *given_self, PyObject *args) {
    PlainPulls *self = (PlainPulls *)given_self;
    PyObject *header, *plan;
    long long opaque, queue_offset, commit_offset;
    char key[PULL_HEADER_MAX];
    Pull pull;
    if (!PyArg_ParseTuple(args, "SLLLO!", &header, &opaque, &queue_offset, &commit_offset, &PyTuple_Type, &plan)) return NULL;
    int is_known = is_plan(plan);
    if (is_known < 0) return NULL;
    ptrdiff_t size = is_known ? cut_pull(text_of(header), key, &pull) : 0;
    if (!size || pull.opaque != opaque || pull.queue_offset != queue_offset || pull.commit_offset != commit_offset)
        Py_RETURN_NONE;
    is_old(self, now_ns());
    if (PyDict_GET_SIZE(self->plans) >= PLANS_MAX) forget_all(self);
    PyObject *made = PyBytes_FromStringAndSize(key, size);
    int failed = !made || PyDict_SetItem(self->plans, made, plan);
    Py_XDECREF(made);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *forget(PyObject *self, PyObject *Py_UNUSED(none)) {
    forget_all((PlainPulls *)self);
    Py_RETURN_NONE;
}

static int traverse(PyObject *given, visitproc visit, void *arg) {
    PlainPulls *self = (PlainPulls *)given;
    Py_VISIT(self->taker.admits);
    Py_VISIT(self->log);
    Py_VISIT(self->plans);
    for (int number = 0; number < FILES; number++) {
        Py_VISIT(self->files[number].segments);
        Py_VISIT(self->files[number].file);
    }
    return 0;
}

static int clear(PyObject *given) {
    Py_CLEAR(((PlainPulls *)given)->taker.admits);
    if (((PlainPulls *)given)->plans) forget_all((PlainPulls *)given);  // all other cycles go through a plan
    return 0;
}

static void dealloc(PyObject *given) {
    PyObject_GC_UnTrack(given);
    clear(given);
    Py_XDECREF(((PlainPulls *)given)->plans);
    Py_XDECREF(((PlainPulls *)given)->log);
    Py_TYPE(given)->tp_free(given);
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    PyObject *log;
    long long hot_bytes, kept_ms;
    if (!PyArg_ParseTuple(args, "OLL", &log, &hot_bytes, &kept_ms)) return NULL;
    PlainPulls *self = (PlainPulls *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->taker.take = take_pull;
    self->log = Py_NewRef(log);
    self->hot_bytes = hot_bytes;
    self->kept_ns = kept_ms * 1000000;
    self->plans = PyDict_New();
    if (!self->plans) Py_CLEAR(self);
    return (PyObject *)self;
}

static PyMethodDef methods[] = {
    {"keep", keep, METH_VARARGS, NULL},
    {"forget", forget, METH_NOARGS, NULL},
    {"read_run", read_run, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject PlainPullsType = {OF_TYPE(PlainPulls), COLLECTED, .tp_base = &TakerType};

int add_plain_pulls(PyObject *module) {
    static const Name all[] = {NAMES(NAME_OF)};
    return make_names(all, sizeof all / sizeof *all) ? -1 : PyModule_AddType(module, &PlainPullsType);
}
