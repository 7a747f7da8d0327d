/* Cores, duplicates, and contexts whose memory or purpose is set by a flag. */
#include "walk.h"

void walk_cores(void) {
    static const int masks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 255, 0xffff, 0x10000, -1};
    rknn_context context = opened(0);
    CALL(feed(context), "rknn_inputs_set");
    for (size_t place = 0; place < sizeof masks / sizeof *masks; place++) {
        CALL(rknn_set_core_mask(context, masks[place]), "rknn_set_core_mask 0x%x", masks[place]);
        CALL(rknn_run(context, NULL), "rknn_run after mask 0x%x", masks[place]);
    }
    for (int number = -1; number < 6; number++) {
        CALL(rknn_set_batch_core_num(context, number), "rknn_set_batch_core_num %d", number);
        CALL(rknn_run(context, NULL), "rknn_run after rknn_set_batch_core_num %d", number);
    }
    CALL(rknn_set_core_mask(context, 7), "rknn_set_core_mask 0x7");
    CALL(rknn_set_batch_core_num(context, 2), "rknn_set_batch_core_num 2 after mask 0x7");
    CALL(rknn_destroy(context), "rknn_destroy");
}

void walk_duplicates(void) {
    rknn_context source = opened(0), copy = 0x77, second = 0;
    CALL(rknn_dup_context(NULL, &copy), "rknn_dup_context, in NULL");
    CALL(rknn_dup_context(&source, NULL), "rknn_dup_context, out NULL");
    CALL(rknn_dup_context(&second, &copy), "rknn_dup_context of 0");
    copy = 0;
    CALL(rknn_dup_context(&source, &copy), "rknn_dup_context");
    note("the handle is %s", !copy ? "0" : copy == source ? "the same" : "another");
    if (!copy)
        return;
    CALL(feed(copy), "rknn_inputs_set of the duplicate");
    CALL(rknn_run(source, NULL), "rknn_run of the source without inputs");
    CALL(rknn_run(copy, NULL), "rknn_run of the duplicate");
    CALL(rknn_dup_context(&copy, &second), "rknn_dup_context of the duplicate");
    note_sizes("duplicate's MEM_SIZE", copy);
    note_sizes("source's MEM_SIZE", source);
    CALL(rknn_destroy(source), "rknn_destroy of the source");
    CALL(rknn_run(copy, NULL), "rknn_run of the duplicate without its source");
    CALL(rknn_destroy(copy), "rknn_destroy of the duplicate");
    if (second)
        CALL(rknn_destroy(second), "rknn_destroy of the second duplicate");
}

static void bind_all(rknn_context context, int query, uint32_t number, const char *what) {
    for (uint32_t index = 0; index < number; index++) {
        rknn_tensor_attr found = attribute(context, query, index);
        uint32_t size = found.size_with_stride > found.size ? found.size_with_stride : found.size;
        CALL(rknn_set_io_mem(context, rknn_create_mem(context, size), &found),
             "rknn_set_io_mem %s %u", what, index);
    }
}

static void walk_memory_of(uint32_t flags) {
    rknn_context context = opened(flags);
    rknn_mem_size sizes;
    memset(&sizes, 0, sizeof sizes);
    CALL(rknn_query(context, RKNN_QUERY_MEM_SIZE, &sizes, sizeof sizes), "MEM_SIZE");
    note_sizes("MEM_SIZE", context);
    CALL(feed(context), "rknn_inputs_set before memory is set");
    CALL(rknn_run(context, NULL), "rknn_run before memory is set");
    CALL(rknn_set_weight_mem(context, NULL), "rknn_set_weight_mem NULL");
    CALL(rknn_set_internal_mem(context, NULL), "rknn_set_internal_mem NULL");
    rknn_tensor_mem *weights = rknn_create_mem(context, sizes.total_weight_size);
    rknn_tensor_mem *internal = rknn_create_mem(context, sizes.total_internal_size);
    CALL(rknn_set_weight_mem(context, weights), "rknn_set_weight_mem");
    CALL(rknn_run(context, NULL), "rknn_run with weights alone");
    CALL(rknn_set_internal_mem(context, internal), "rknn_set_internal_mem");
    CALL(feed(context), "rknn_inputs_set");
    CALL(rknn_run(context, NULL), "rknn_run with both");
    CALL(rknn_set_weight_mem(context, weights), "rknn_set_weight_mem once more");
    CALL(rknn_set_internal_mem(context, internal), "rknn_set_internal_mem once more");
    bind_all(context, RKNN_QUERY_NATIVE_INPUT_ATTR, counts(context).n_input, "input");
    bind_all(context, RKNN_QUERY_NATIVE_OUTPUT_ATTR, counts(context).n_output, "output");
    CALL(rknn_run(context, NULL), "rknn_run with all");
    CALL(rknn_destroy(context), "rknn_destroy");
    /* The vendor's library writes beyond it. */
    context = opened(flags);
    rknn_tensor_mem *small = rknn_create_mem(context, 16);
    CALL(rknn_set_weight_mem(context, small), "rknn_set_weight_mem of 16 bytes");
    CALL(rknn_set_internal_mem(context, small), "rknn_set_internal_mem of 16 bytes");
}

void walk_outside_memory(void) { walk_memory_of(RKNN_FLAG_MEM_ALLOC_OUTSIDE); }
void walk_internal_outside(void) { walk_memory_of(RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE); }
void walk_information_only(void) { walk_memory_of(RKNN_FLAG_COLLECT_MODEL_INFO_ONLY); }
