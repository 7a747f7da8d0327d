/* A runtime as an ARM board has it, declared by hand: its handles are as wide as pointers are. It
 * returns 0 where a call's arguments arrived whole, else the line that found a fault. */
#include <stdint.h>
#include <string.h>

#ifdef __arm__
typedef uint32_t handle;
#define FIRST 0xc0ffee01u
#define OTHER 0x9abcdef0u
#else
typedef uint64_t handle;
#define FIRST 0x12345678c0ffee01u
#define OTHER 0xfedcba989abcdef0u
#endif

#define EXPECT(condition)                                                                      \
    do {                                                                                       \
        if (!(condition))                                                                      \
            return __LINE__;                                                                   \
    } while (0)

struct init_extend {
    handle ctx;
    int32_t offset;
    uint32_t size;
};

struct custom_op_context {
    int target;
    handle internal;
    void *cl_context, *cl_command_queue, *cl_kernel, *private_data;
};

struct custom_op_attr {
    char name[256];
    int type;
    uint32_t count;
    void *data;
};

int rknn_init(handle *context, void *model, uint32_t size, uint32_t flag,
              struct init_extend *extend) {
    EXPECT(!strcmp(model, "model") && size == 5 && flag == 0x1820);
    EXPECT(extend->ctx == OTHER && extend->offset == -3 && extend->size == 77);
    *context = FIRST;
    return 0;
}

int rknn_query(handle context, int command, void *info, uint32_t size) {
    EXPECT(context == FIRST && command == 5 && size == 512);
    strcpy(info, "1.2.3");
    return 0;
}

void *rknn_create_mem_from_fd(handle context, int32_t fd, void *address, uint32_t size,
                              int32_t offset) {
    int is_whole = context == FIRST && fd == 3 && size == 4096 && offset == 64;
    return is_whole ? address : NULL;
}

void *rknn_create_mem2(handle context, uint64_t size, uint64_t flags) {
    static int memory;
    return context == FIRST && size == 0x100000002u && flags == 0x300000004u ? &memory : NULL;
}

int rknn_matmul_set_core_mask(handle context, int mask) {
    EXPECT(context == OTHER && mask == 7);
    return 0;
}

void rknn_custom_op_get_op_attr(struct custom_op_context *context, const char *name,
                                struct custom_op_attr *attr) {
    attr->count = context->target == 1 && context->internal == OTHER &&
                  context->private_data == context && !strcmp(name, "axis");
}

int rknn_destroy(handle context) {
    EXPECT(context == FIRST);
    return 0;
}
