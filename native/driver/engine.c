/* Hands what is submitted to the process that computes it, over a Unix socket of packets.
 *
 * An object goes over once, with its descriptor, when it is first needed; so the engine sees the
 * same memory as the program. Without the setting SOCKET jobs are done and nothing is computed.
 */
#include "driver.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* anynpu/soft/driver/messages.py has the same. */
enum message_kind { ADD_OBJECT = 1, DROP_OBJECT = 2, SUBMIT_JOB = 3 };

struct message {
    uint32_t kind;
    uint32_t handle; /* of an object, or of the tasks' */
    uint64_t address;
    uint64_t size;
    struct rknpu_submit job;
};

struct answer {
    int32_t error; /* an errno, or 0 */
    uint32_t reserved;
    int64_t nanoseconds;
};

_Static_assert(sizeof(struct message) == 128, "message");
_Static_assert(sizeof(struct answer) == 16, "answer");

#define MOST_DROPPED 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the connection */
static int connection = -1;
static pid_t owner;

/* Handles that the engine knows and the program has destroyed; the objects' lock guards them. */
static uint32_t dropped[MOST_DROPPED];
static uint32_t dropped_count;
static int is_full; /* some of them aren't listed: the engine is to begin anew */

static void close_connection(void) {
    if (connection >= 0)
        syscall(SYS_close, connection);
    connection = -1;
}

static void forget_all(void) {
    dropped_count = 0;
    is_full = 0;
    for (uint32_t handle = 1; handle < handle_limit(); handle++)
        if (object_of(handle))
            object_of(handle)->is_known = 0;
}

void forget_object(uint32_t handle) {
    if (!object_of(handle)->is_known)
        return;
    if (dropped_count < MOST_DROPPED)
        dropped[dropped_count++] = handle;
    else
        is_full = 1;
}

static int connect_engine(const char *path) {
    lock_objects();
    int is_current = !is_full;
    unlock_objects();
    if (connection >= 0 && owner == getpid() && is_current)
        return 0;
    /* A child has its parent's connection, but objects of its own. */
    close_connection();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return ENAMETOOLONG;
    strcpy(address.sun_path, path);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (made < 0)
        return errno;
    if (connect(made, (struct sockaddr *)&address, sizeof address) != 0) {
        int error = errno;
        syscall(SYS_close, made);
        return error;
    }
    connection = made;
    owner = getpid();
    lock_objects();
    forget_all();
    unlock_objects();
    return 0;
}

static int send_message(const struct message *message, int descriptor) {
    struct iovec part = {(void *)message, sizeof *message};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        packet.msg_control = &control;
        packet.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    ssize_t sent;
    do
        sent = sendmsg(connection, &packet, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *message ? 0 : errno ? errno : EIO;
}

/* What changed since the last job. */
static int tell_objects(void) {
    int error = 0;
    lock_objects();
    for (uint32_t place = 0; place < dropped_count && !error; place++) {
        struct message message = {.kind = DROP_OBJECT, .handle = dropped[place]};
        error = send_message(&message, -1);
    }
    dropped_count = 0;
    for (uint32_t handle = 1; handle < handle_limit() && !error; handle++) {
        struct object *object = object_of(handle);
        if (!object || object->is_known)
            continue;
        struct message message = {
            .kind = ADD_OBJECT, .handle = handle, .address = object->address, .size = object->size};
        error = send_message(&message, object->descriptor);
        object->is_known = !error;
    }
    unlock_objects();
    return error;
}

static int ask(struct rknpu_submit *job, uint32_t tasks) {
    int error = tell_objects();
    struct message message = {.kind = SUBMIT_JOB, .handle = tasks, .job = *job};
    if (!error)
        error = send_message(&message, -1);
    if (error)
        return error;
    struct answer answer;
    ssize_t got;
    do
        got = recv(connection, &answer, sizeof answer, 0);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof answer)
        return EIO;
    job->elapsed = answer.nanoseconds;
    return answer.error;
}

/* The last task of a list says that it is done. */
static int mark_done(const struct rknpu_submit *job, uint32_t tasks) {
    lock_objects();
    struct object *object = object_of(tasks);
    int descriptor = object ? object->descriptor : -1;
    uint64_t size = object ? object->size : 0;
    uint64_t last = (uint64_t)job->task_start + job->task_number;
    int error = last * sizeof(struct rknpu_task) > size ? EINVAL : 0;
    if (!error && job->task_number) {
        off64_t place = (off64_t)((last - 1) * sizeof(struct rknpu_task));
        struct rknpu_task task;
        if (pread64(descriptor, &task, sizeof task, place) == (ssize_t)sizeof task) {
            task.interrupt_status = task.interrupt_mask;
            if (pwrite64(descriptor, &task, sizeof task, place) != (ssize_t)sizeof task)
                error = EIO;
        }
    }
    unlock_objects();
    return error;
}

int compute(struct rknpu_submit *job, uint32_t tasks) {
    const char *path = setting("SOCKET");
    int error = 0;
    if (path) {
        pthread_mutex_lock(&lock);
        error = connect_engine(path);
        if (!error)
            error = ask(job, tasks);
        if (error == EPIPE || error == ECONNRESET)
            close_connection();
        pthread_mutex_unlock(&lock);
    }
    return error ? error : mark_done(job, tasks);
}
