// Load of one kind of gRPC call on one port, over HTTP/2:
//   grpc_load PORT PID CONNECTIONS WINDOW SECONDS HEAD_FILE NEXT_HEAD_FILE REQUEST_FILE [ACK_HEAD_FILE ACK_NEXT_HEAD_FILE ACK_FILE]
//
// HEAD_FILE holds the header block (HPACK) of the first call of a connection, which fills the peer's table as a client's does; NEXT_HEAD_FILE
// that of all later ones. REQUEST_FILE is the message. In all of them runs of ten digits "1000000000" become the number of the call.
// WINDOW calls are outstanding on each connection. After 0.5 s of warm-up it measures for SECONDS and prints one line of JSON: calls and messages
// a second, CPU of process PID in microseconds a call, errors (answers without the status OK), latencies in microseconds.
//
// With the files of acknowledgements (WINDOW is then 1 for the receives and 16 for the acknowledgements), the calls receive messages; then as many
// of those as SECONDS allow are acknowledged, one a call, and a second line is printed. One thread, epoll; some two microseconds of CPU a call.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef uint8_t byte;
typedef struct { byte *bytes; size_t len; } Bytes;
typedef struct { int fd, calls, waits_for_write; uint32_t stream; byte *in, *out, *answer; size_t in_len, out_len, out_sent, answer_len, unread; double *sent_at; byte *is_good; } Connection;
enum { STREAMS = 1 << 16, IN = 1 << 20, ANSWER = 8 << 20, HANDLES = 4 << 20, ACK_WINDOW = 16 };
enum { DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW };
static const byte OK[] = {0x08, 0xa0, 0x9c, 0x01};

static Bytes head, next_head, request, ack_head, ack_next_head, ack_request;
static Bytes *handles; static size_t handles_len, handles_used;
static int window, is_receiving, is_acking, epoll_fd, pid; static unsigned sequence;
static size_t calls, messages, errors, latencies_len; static float *latencies; enum { LATENCIES = 4 << 20 };

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static int by_value(const void *a, const void *b) { float x = *(float *)a, y = *(float *)b; return x < y ? -1 : x > y; }
static void fail(const char *text) { fprintf(stderr, "%s\n", text); exit(3); }

static double cpu_s(void) {
  char path[64], line[1024]; snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *f = fopen(path, "r"); if (!f) fail("the server is gone");
  size_t n = fread(line, 1, sizeof line - 1, f); line[n] = 0; fclose(f);
  unsigned long user, system; sscanf(strrchr(line, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
  return (double)(user + system) / sysconf(_SC_CLK_TCK);
}

static Bytes read_file(const char *path) {
  FILE *f = fopen(path, "rb"); if (!f) { perror(path); exit(2); }
  fseek(f, 0, SEEK_END); Bytes b = {.len = ftell(f)}; rewind(f);
  b.bytes = malloc(b.len + 1); if (fread(b.bytes, 1, b.len, f) != b.len) exit(2);
  fclose(f); return b;
}

static byte *put_frame_head(byte *to, size_t len, int kind, int flags, uint32_t stream) {
  to[0] = len >> 16; to[1] = len >> 8; to[2] = len; to[3] = kind; to[4] = flags; stream = htonl(stream); memcpy(to + 5, &stream, 4); return to + 9;
}

static void put_number(byte *from, byte *end) {
  char digits[11]; snprintf(digits, sizeof digits, "1%09u", sequence % 1000000000);
  for (byte *p = from; (p = memmem(p, end - p, "1000000000", 10)); p += 10) memcpy(p, digits, 10);
}

static byte *put_varint(byte *to, size_t value) { for (; value > 127; value >>= 7) *to++ = value | 128; *to++ = value; return to; }

static void flush(Connection *c) {
  while (c->out_sent < c->out_len) {
    ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) { perror("send"); exit(3); }
    if (n < 0) { if (!c->waits_for_write) { c->waits_for_write = 1; struct epoll_event e = {EPOLLIN | EPOLLOUT, {.ptr = c}}; epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e); } return; }
    c->out_sent += n;
  }
  c->out_len = c->out_sent = 0;
  if (c->waits_for_write) { c->waits_for_write = 0; struct epoll_event e = {EPOLLIN, {.ptr = c}}; epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e); }
}

static void call(Connection *c) {
  Bytes handle = {0}; const Bytes *block, *message = is_acking ? &ack_request : &request;
  if (is_acking) { if (handles_used == handles_len) return; handle = handles[handles_used++]; }
  block = is_acking ? (c->calls ? &ack_next_head : &ack_head) : (c->calls ? &next_head : &head);
  sequence++; c->calls++; c->stream += c->stream ? 2 : 1;
  byte *from = c->out + c->out_len, *p = put_frame_head(from, block->len, HEADERS, 4, c->stream);
  memcpy(p, block->bytes, block->len); p += block->len;
  size_t len = message->len + handle.len;
  p = put_frame_head(p, len + 5, DATA, 1, c->stream); *p++ = 0; uint32_t word = htonl(len); memcpy(p, &word, 4); p += 4;
  memcpy(p, message->bytes, message->len); p += message->len; put_number(from, p);
  if (handle.len) memcpy(p, handle.bytes, handle.len);
  p += handle.len;
  c->out_len = p - c->out; c->sent_at[c->stream / 2 % STREAMS] = now(); c->is_good[c->stream / 2 % STREAMS] = 0; c->answer_len = 0;
}

// --- messages of protobuf

static uint64_t varint(const byte **p, const byte *end) { uint64_t v = 0; for (int s = 0; *p < end; s += 7) { byte b = *(*p)++; v |= (uint64_t)(b & 127) << s; if (b < 128) break; } return v; }

static Bytes field(Bytes in, unsigned wanted) {  // the first field of that number, which has a length; empty if there is none
  const byte *p = in.bytes, *end = p + in.len;
  while (p < end) {
    uint64_t key = varint(&p, end), kind = key & 7;
    if (kind == 0) varint(&p, end);
    else if (kind == 1) p += 8;
    else if (kind == 5) p += 4;
    else { size_t len = varint(&p, end); if (len > (size_t)(end - p)) break; if (key >> 3 == wanted) return (Bytes){(byte *)p, len}; p += len; }
  }
  return (Bytes){0};
}

static void keep_handles(Connection *c) {  // of all messages in the answer
  for (size_t o = 0; o + 5 <= c->answer_len;) {
    uint32_t len; memcpy(&len, c->answer + o + 1, 4); len = ntohl(len); if (o + 5 + len > c->answer_len) fail("half a message");
    Bytes system = field(field((Bytes){c->answer + o + 5, len}, 2), 3); o += 5 + len;
    if (!system.len) continue;
    messages++;
    Bytes id = field(system, 3), handle = field(system, 12); byte entry[1024], *p = entry;
    if (!ack_request.len || handles_len == HANDLES || id.len + handle.len > 900) continue;
    *p++ = 0x0a; p = put_varint(p, id.len); memcpy(p, id.bytes, id.len); p += id.len;
    *p++ = 0x12; p = put_varint(p, handle.len); memcpy(p, handle.bytes, handle.len); p += handle.len;
    Bytes kept = {malloc(p - entry + 4), 0}; byte *to = kept.bytes; *to++ = 0x1a; to = put_varint(to, p - entry);
    memcpy(to, entry, p - entry); kept.len = to - kept.bytes + (p - entry); handles[handles_len++] = kept;
  }
}

// --- answers

static void take_frame(Connection *c, int kind, int flags, uint32_t stream, const byte *data, size_t len, double t) {
  if (kind == GOAWAY) fail("the server says GOAWAY");
  if (kind == SETTINGS && !(flags & 1)) c->out_len = put_frame_head(c->out + c->out_len, 0, SETTINGS, 1, 0) - c->out;
  if (kind == PING && !(flags & 1)) { byte *p = put_frame_head(c->out + c->out_len, 8, PING, 1, 0); memcpy(p, data, 8); c->out_len = p + 8 - c->out; }
  if (kind == DATA) {
    if (memmem(data, len, OK, sizeof OK)) c->is_good[stream / 2 % STREAMS] = 1;
    if (is_receiving) { if (c->answer_len + len > ANSWER) fail("a long answer"); memcpy(c->answer + c->answer_len, data, len); c->answer_len += len; }
    if ((c->unread += len) > 1 << 20) {
      byte *p = put_frame_head(c->out + c->out_len, 4, WINDOW, 0, 0); uint32_t more = htonl(c->unread); memcpy(p, &more, 4); c->out_len = p + 4 - c->out; c->unread = 0;
    }
  }
  if (kind != RESET && !((kind == DATA || kind == HEADERS) && flags & 1)) return;
  calls++; errors += kind == RESET || !c->is_good[stream / 2 % STREAMS];
  if (latencies_len < LATENCIES) latencies[latencies_len++] = t - c->sent_at[stream / 2 % STREAMS];
  if (is_receiving) keep_handles(c); else messages++;
  call(c);
}

static void take(Connection *c) {
  ssize_t n = recv(c->fd, c->in + c->in_len, IN - c->in_len, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) fail("connection closed");
  c->in_len += n; size_t o = 0; double t = now();
  while (c->in_len - o >= 9) {
    byte *p = c->in + o; size_t len = p[0] << 16 | p[1] << 8 | p[2]; uint32_t stream; memcpy(&stream, p + 5, 4);
    if (c->in_len - o < 9 + len) break;
    take_frame(c, p[3], p[4], ntohl(stream), p + 9, len, t); o += 9 + len;
  }
  memmove(c->in, c->in + o, c->in_len - o); c->in_len -= o; flush(c);
}

static Connection *connect_all(int port, int connections) {
  Connection *all = calloc(connections, sizeof *all);
  for (int i = 0; i < connections; i++) {
    Connection *c = &all[i]; struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}; int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (void *)&to, sizeof to)) { perror("connect"); exit(3); }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->in = malloc(IN); c->out = malloc((size_t)(window + 4) * (head.len + request.len + ack_head.len + ack_request.len + 2048)); c->answer = is_receiving ? malloc(ANSWER) : NULL;
    c->sent_at = calloc(STREAMS, sizeof(double)); c->is_good = calloc(STREAMS, 1);
    static const byte settings[] = {0, 4, 0x7f, 0xff, 0xff, 0xff}, more[] = {0x3f, 0xff, 0, 0};  // windows without end
    memcpy(c->out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    byte *p = put_frame_head(c->out + 24, 6, SETTINGS, 0, 0); memcpy(p, settings, 6);
    p = put_frame_head(p + 6, 4, WINDOW, 0, 0); memcpy(p, more, 4); c->out_len = p + 4 - c->out;
    struct epoll_event e = {EPOLLIN, {.ptr = c}}; epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
    for (int k = 0; k < window; k++) call(c);
    flush(c);
  }
  return all;
}

static void measure(int port, int connections, double seconds) {
  Connection *all = connect_all(port, connections); struct epoll_event events[256]; double started = now(), from = 0, before_s = 0, last = started;
  calls = 0;
  for (;;) {
    int ready = epoll_wait(epoll_fd, events, 256, 1000); double t = now();
    if (!from && t - started > 0.5) { from = t; before_s = cpu_s(); calls = messages = errors = latencies_len = 0; }
    if (is_acking && handles_used == handles_len && !from) fail("too few messages to acknowledge");
    if (from && (t - from > seconds || (is_acking && handles_used == handles_len))) break;
    if (ready) last = t; else if (t - last > 10) fail("no answer for ten seconds");
    for (int i = 0; i < ready; i++) { Connection *c = events[i].data.ptr; if (events[i].events & EPOLLOUT) flush(c); if (events[i].events & ~EPOLLOUT) take(c); }
  }
  double T = now() - from, used_s = cpu_s() - before_s; qsort(latencies, latencies_len, sizeof *latencies, by_value);
  #define P(q) (latencies_len ? latencies[(size_t)(latencies_len * (q))] * 1e6 : 0)
  printf("{\"calls_per_s\":%.1f,\"messages_per_s\":%.1f,\"cpu_us\":%.1f,\"errors\":%zu,\"p50_us\":%.1f,\"p99_us\":%.1f}\n", calls / T, messages / T, calls ? used_s * 1e6 / calls : 0, errors, P(.5), P(.99));
  fflush(stdout);
  for (int i = 0; i < connections; i++) close(all[i].fd);
}

int main(int argc, char **argv) {
  if (argc != 9 && argc != 12) { fprintf(stderr, "usage: grpc_load PORT PID CONNECTIONS WINDOW SECONDS HEAD NEXT_HEAD REQUEST [ACK_HEAD ACK_NEXT_HEAD ACK_REQUEST]\n"); return 2; }
  int port = atoi(argv[1]), connections = atoi(argv[3]); double seconds = atof(argv[5]);
  pid = atoi(argv[2]); window = atoi(argv[4]); epoll_fd = epoll_create1(0); latencies = malloc(LATENCIES * sizeof *latencies);
  head = read_file(argv[6]); next_head = read_file(argv[7]); request = read_file(argv[8]);
  if (argc == 12) { is_receiving = 1; ack_head = read_file(argv[9]); ack_next_head = read_file(argv[10]); ack_request = read_file(argv[11]); handles = malloc(HANDLES * sizeof *handles); }
  measure(port, connections, seconds);
  if (is_receiving) { is_receiving = 0; is_acking = 1; window = ACK_WINDOW; measure(port, connections, seconds); }
  return 0;
}
