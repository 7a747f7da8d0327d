/* A client of handles_runtime.c, which also is C++: what it passes has to arrive whole. It returns
 * 0, or the number of the call that failed. */
#include <string.h>

#include "rknn_api.h"

#ifdef __arm__
#define FIRST 0xc0ffee01u
#define OTHER 0x9abcdef0u
#else
#define FIRST 0x12345678c0ffee01u
#define OTHER 0xfedcba989abcdef0u
#endif

int main(void) {
    struct {
        rknn_context context;
        unsigned char after[8];
    } place;
    memset(&place, 0x55, sizeof place);
    rknn_init_extend extend;
    memset(&extend, 0, sizeof extend);
    extend.ctx = OTHER;
    extend.real_model_offset = -3;
    extend.real_model_size = 77;
    char model[] = "model";
    uint32_t flags = RKNN_FLAG_SHARE_WEIGHT_MEM | RKNN_FLAG_ENABLE_SRAM | RKNN_FLAG_SHARE_SRAM;
    if (rknn_init(&place.context, model, 5, flags, &extend) || place.context != FIRST)
        return 1;
    for (int i = 0; i < 8; i++)
        if (place.after[i] != 0x55)
            return 2;
    rknn_context context = place.context;
    rknn_sdk_version version;
    if (rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version) ||
        strcmp(version.api_version, "1.2.3"))
        return 3;
    int there;
    if ((void *)rknn_create_mem_from_fd(context, 3, &there, 4096, 64) != (void *)&there)
        return 4;
    if (!rknn_create_mem2(context, 0x100000002u, 0x300000004u))
        return 5;
    rknn_matmul_ctx matmul = OTHER;
    if (rknn_matmul_set_core_mask(matmul, RKNN_NPU_CORE_0_1_2))
        return 6;
    rknn_custom_op_context operation;
    memset(&operation, 0, sizeof operation);
    operation.target = RKNN_TARGET_TYPE_CPU;
    operation.internal_ctx = OTHER;
    operation.priv_data = &operation;
    rknn_custom_op_attr attr;
    memset(&attr, 0, sizeof attr);
    rknn_custom_op_get_op_attr(&operation, "axis", &attr);
    if (attr.n_elems != 1)
        return 7;
    return rknn_destroy(context) ? 8 : 0;
}
