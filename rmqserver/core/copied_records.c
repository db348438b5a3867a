// The records of a copied log that need nothing but their units and index entries; simple.py says which these are.
// log_copy.py does the same for those that are not plain.
#define _GNU_SOURCE  // memmem
#include "glue.h"

#define MARKS_MAX 8
#define RUNS_MAX 512

typedef struct { Text topic; int32_t queue_id; uint32_t prefix_hash; int64_t first; Buffer units; } Run;  // units of one queue
typedef struct {
    const char *fates;  // 256, by the low bits of a sysFlag
    int queued, indexed;  // the bits of a fate
    Text marks[MARKS_MAX], odd_topic;
    Py_ssize_t mark_count;
    Run runs[RUNS_MAX];
    int run_count;
    Buffer entries;
} Copy;

static int has_mark(const Copy *copy, Text properties) {
    for (Py_ssize_t number = 0; number < copy->mark_count; number++) {
        Text mark = copy->marks[number];
        if (memmem(properties.bytes, (size_t)properties.size, mark.bytes, (size_t)mark.size)) return 1;
    }
    return 0;
}

// A topic that can be a directory and needs no decoding.
static int is_plain_topic(Text topic) {
    uint32_t unused = 0;
    if (!topic.size || topic.bytes[0] == '.' || extend_hash(&unused, topic)) return 0;
    return !memchr(topic.bytes, '/', (size_t)topic.size) && !memchr(topic.bytes, 0, (size_t)topic.size);
}

static int is_plain(const Copy *copy, const Record *record, int64_t log_offset) {
    if (record->magic != MAGIC_V1 || record->sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)) return 0;
    if (record->log_offset != log_offset || record->properties_size != record->properties.size) return 0;
    if (is_same(record->topic, copy->odd_topic)) return 0;
    if (record->queue_offset < 0 || record->queue_offset == INT64_MAX) return 0;  // damaged
    return !has_mark(copy, record->properties) && (crc32_of(record->body) & 0x7FFFFFFF) == record->crc;
}

// The run that the record's unit continues, or a new one. NULL if there is no room, or the topic is not plain.
static Run *run_of(Copy *copy, const Record *record) {
    Run *run = copy->runs, *end = run + copy->run_count;
    uint32_t hash = 0;
    if (extend_hash(&hash, record->topic) || extend_hash(&hash, (Text){"#", 1})) return NULL;
    for (; run < end; run++)
        if (run->prefix_hash == hash && run->queue_id == record->queue_id && is_same(run->topic, record->topic) &&
            (!run->units.size || run->first + run->units.size / UNIT_SIZE == record->queue_offset)) return run;
    if (copy->run_count == RUNS_MAX || !is_plain_topic(record->topic)) return NULL;
    copy->run_count++;
    *run = (Run){.topic = record->topic, .queue_id = record->queue_id, .prefix_hash = hash};
    return run;
}

// Adds what the record's fate says. 1; 0 if the record is not plain, -1 with an exception.
static int add_record(Copy *copy, const Record *record) {
    int fate = copy->fates[record->sys_flag & 0xFF], is_queued = fate & copy->queued, is_indexed = fate & copy->indexed;
    if (!is_queued && !is_indexed) return is_plain_topic(record->topic);
    Keys keys = keys_of(record->properties);
    uint32_t code = 0;
    if (extend_hash(&code, keys.tags)) return 0;
    Run *run = run_of(copy, record);
    if (!run) return 0;
    if (is_indexed) {
        if (reserve(&copy->entries, entry_count_max(&keys) * (Py_ssize_t)sizeof(Entry))) return -1;
        ptrdiff_t made = put_entries(end_of(&copy->entries), run->prefix_hash, &keys, record->log_offset, record->store_ms);
        if (made < 0) return -1;
        copy->entries.size += made * (Py_ssize_t)sizeof(Entry);
    }
    if (is_queued) {
        if (reserve(&run->units, UNIT_SIZE)) return -1;
        if (!run->units.size) run->first = record->queue_offset;
        put_unit(end_of(&run->units), record->log_offset, record->size, (int32_t)code);
        run->units.size += UNIT_SIZE;
    }
    return 1;
}

// A list of ``CopiedRun``.
static PyObject *runs_of(const Copy *copy) {
    PyObject *runs = PyList_New(0);
    for (const Run *run = copy->runs; runs && run < copy->runs + copy->run_count; run++) {
        if (!run->units.size) continue;
        PyObject *made = Py_BuildValue("s#iLy#", run->topic.bytes, run->topic.size, (int)run->queue_id,
                                       (long long)run->first, run->units.bytes, run->units.size);
        if (!made || PyList_Append(runs, made)) Py_CLEAR(runs);
        Py_XDECREF(made);
    }
    return runs;
}

static PyObject *plain_records_in(Copy *copy, Text data, int64_t base) {
    int64_t at = 0, last = -1, store_ms = 0;
    int done = 1;
    for (Record record; done > 0 && read_record(data.bytes + at, data.size - at, &record);) {
        done = is_plain(copy, &record, base + at) ? add_record(copy, &record) : 0;
        if (done <= 0) continue;
        last = base + at;
        store_ms = record.store_ms;
        at += record.size;
    }
    PyObject *runs = done < 0 ? NULL : runs_of(copy);
    return runs ? Py_BuildValue("LLLNy#", (long long)(base + at), (long long)last, (long long)store_ms, runs,
                                copy->entries.size ? copy->entries.bytes : "", copy->entries.size) : NULL;
}

PyObject *plain_records(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer data;
    PyObject *fates, *marks, *odd_topic, *found = NULL;
    long long base;
    Copy copy = {.run_count = 0};
    if (!PyArg_ParseTuple(args, "y*LSiiOS", &data, &base, &fates, &copy.queued, &copy.indexed, &marks, &odd_topic)) return NULL;
    if (PyBytes_GET_SIZE(fates) != 256 || base < 0 || base > INT64_MAX - data.len) {
        PyErr_SetString(PyExc_ValueError, "fates are 256 bytes, and a log offset is not negative");
    } else if (!take_texts(marks, copy.marks, MARKS_MAX, 0)) {
        copy.mark_count = PyTuple_GET_SIZE(marks);
        copy.fates = PyBytes_AS_STRING(fates);
        copy.odd_topic = text_of(odd_topic);
        found = plain_records_in(&copy, (Text){data.buf, data.len}, base);
    }
    while (copy.run_count) drop(&copy.runs[--copy.run_count].units);
    drop(&copy.entries);
    PyBuffer_Release(&data);
    return found;
}
