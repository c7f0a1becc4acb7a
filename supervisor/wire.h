/* The protocol between a host and the supervisor, as bytes. docs/protocol.md is the specification. */
#ifndef PADDOCK_WIRE_H
#define PADDOCK_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTOCOL_VERSION 1
#define HEADER_SIZE 12
#define MAX_PAYLOAD (2u << 20) /* as much as the kernel takes for a command and its environment */
#define MAX_DATA (256u << 10) /* data in one frame, by both sides' good manners */
#define MAX_FDS 8
#define KEEP_MODE 0xffffffffu

/* What the host asks. */
enum request {
    REQ_HELLO = 0x01,
    REQ_ROOT = 0x02,
    REQ_END = 0x03,
    REQ_SPAWN = 0x10,
    REQ_SIGNAL = 0x11,
    REQ_KILL = 0x12,
    REQ_INPUT = 0x13,
    REQ_RESIZE = 0x14,
    REQ_WINDOW = 0x15,
    REQ_DROP = 0x16,
    REQ_PROCESSES = 0x17,
    REQ_ATTACH = 0x18,
    REQ_STAT = 0x20,
    REQ_LIST = 0x21,
    REQ_OPEN = 0x22,
    REQ_READ = 0x23,
    REQ_CREATE = 0x24,
    REQ_APPEND = 0x25,
    REQ_PUT = 0x26,
    REQ_CLOSE = 0x27,
    REQ_MKDIR = 0x28,
    REQ_REMOVE = 0x29,
    REQ_RENAME = 0x2a,
    REQ_LINK = 0x2b,
    REQ_WATCH = 0x2c,
    REQ_UNWATCH = 0x2d,
    REQ_LISTEN = 0x40,
    REQ_ACCEPT = 0x41,
    REQ_CONNECT = 0x42,
    REQ_PASS = 0x43,
    REQ_ALLOW = 0x44,
    REQ_HANG_UP = 0x45,
};

/* What the supervisor answers and tells. */
enum reply {
    REP_HELLO = 0x81,
    REP_OK = 0x82,
    REP_FAILED = 0x83,
    REP_STARTED = 0x84,
    REP_OUTPUT = 0x85,
    REP_ENDED = 0x86,
    REP_GONE = 0x87,
    REP_WINDOW = 0x88,
    REP_PROCESSES = 0x89,
    REP_NODE = 0x8a,
    REP_ENTRIES = 0x8b,
    REP_OPENED = 0x8c,
    REP_DATA = 0x8d,
    REP_WATCHED = 0x8e,
    REP_CHANGED = 0x8f,
    REP_LISTENING = 0x90,
    REP_CONNECTED = 0x91,
    REP_ERROR = 0xff,
};

/* Where a command failed to start. */
enum stage { STAGE_NONE = 0, STAGE_REQUEST = 1, STAGE_DIRECTORY = 2, STAGE_PROGRAM = 3, STAGE_RESOURCES = 4 };

enum spawn_flag { SPAWN_STDIN = 1, SPAWN_PTY = 2, SPAWN_QUIET = 4, SPAWN_DESCRIPTORS = 8, SPAWN_LEFT = 32 };
#define LISTED_ENDED 16 /* beside these in a list, with the exit code above: it fits into a byte */
enum rename_how { RENAME_OVER = 0, RENAME_NEW = 1, RENAME_SWAP = 2 };
enum node_kind { NODE_FILE = 0, NODE_DIRECTORY = 1, NODE_LINK = 2, NODE_OTHER = 3 };

struct header {
    uint32_t size;
    uint8_t type;
    uint8_t fds;
    uint32_t id;
};

/* False when the bytes cannot be a header. */
bool header_read(const uint8_t bytes[HEADER_SIZE], struct header *header);
void header_write(uint8_t bytes[HEADER_SIZE], const struct header *header);

/* A payload being read. After the first field that is not there, `bad` is set and everything else is empty. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
};

uint8_t take_u8(struct reader *reader);
uint16_t take_u16(struct reader *reader);
uint32_t take_u32(struct reader *reader);
uint64_t take_u64(struct reader *reader);
/* A text that ends with a NUL, in place; one that holds a NUL is bad. Never NULL. */
const char *take_text(struct reader *reader);
/* Whether everything was read and nothing is left. */
bool reader_done(const struct reader *reader);

/* A list of texts as an array that ends with NULL, for execve; to be freed. NULL when it is bad or memory is short. */
char **take_texts(struct reader *reader, uint32_t most);

/* The one message that is being written; `message_begin` starts it anew. Too much is remembered and refused. */
void message_begin(uint8_t type, uint32_t id);
void put_u8(uint8_t value);
void put_u16(uint16_t value);
void put_u32(uint32_t value);
void put_u64(uint64_t value);
void put_text(const char *text);
/* Room for `size` bytes of the payload, to be filled by the caller; NULL when there is none. */
uint8_t *put_space(size_t size);
/* Give back the last `size` bytes of the payload. */
void put_back(size_t size);
size_t message_room(void);
/* The bytes of the whole frame, or NULL when it became too large. */
const uint8_t *message_bytes(size_t *size);

/* A request to start a command, read and checked. */
struct spawn_request {
    uint16_t flags;
    uint16_t rows;
    uint16_t columns;
    uint32_t window;
    uint32_t keep;
    uint32_t root;
    const char *directory;
    char **argv;
    char **environment;
};

bool spawn_request_read(struct reader *reader, struct spawn_request *request);
void spawn_request_free(struct spawn_request *request);

#endif
