/* What the programs of this folder share: checks, files, buffers made as the tensors ask for. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vip_lite.h"

#define REQUIRE(condition)                                                             \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

typedef vip_status_e query_tensor(vip_network, vip_uint32_t, vip_enum, void *);

static inline void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    REQUIRE(file && !fseek(file, 0, SEEK_END));
    *size = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*size);
    REQUIRE(data && fread(data, 1, *size, file) == *size);
    fclose(file);
    return data;
}

static inline void append_file(FILE *file, vip_buffer buffer) {
    size_t size = vip_get_buffer_size(buffer);
    REQUIRE(vip_flush_buffer(buffer, VIP_BUFFER_OPER_TYPE_INVALIDATE) == VIP_SUCCESS);
    void *data = vip_map_buffer(buffer);
    REQUIRE(data && fwrite(data, 1, size, file) == size);
    REQUIRE(vip_unmap_buffer(buffer) == VIP_SUCCESS);
}

static inline void start_driver(void) {
#ifdef OLD_FORMS
    REQUIRE(vip_init(1 << 20) == VIP_SUCCESS);
#else
    REQUIRE(vip_init() == VIP_SUCCESS);
#endif
}

static inline vip_uint32_t count(vip_network network, vip_enum property) {
    vip_uint32_t value = 0;
    REQUIRE(vip_query_network(network, property, &value) == VIP_SUCCESS);
    return value;
}

/* Every property is asked for, whatever the quantisation, as shipping clients do. */
static inline vip_buffer_create_params_t describe(vip_network network, query_tensor *query,
                                                  vip_uint32_t index) {
    vip_buffer_create_params_t params;
    memset(&params, 0, sizeof params);
    float scale = 0;
    vip_int32_t zero_point = 0, position = 0;
#define ASK(property, value)                                                           \
    REQUIRE(query(network, index, VIP_BUFFER_PROP_##property, value) == VIP_SUCCESS)
    ASK(NUM_OF_DIMENSION, &params.num_of_dims);
    ASK(SIZES_OF_DIMENSION, params.sizes);
    ASK(DATA_FORMAT, &params.data_format);
    ASK(QUANT_FORMAT, &params.quant_format);
    ASK(TF_SCALE, &scale);
    ASK(TF_ZERO_POINT, &zero_point);
    ASK(FIXED_POINT_POS, &position);
#undef ASK
    if (params.quant_format == VIP_BUFFER_QUANTIZE_DYNAMIC_FIXED_POINT) {
        params.quant_data.dfp.fixed_point_pos = position;
    } else if (params.quant_format == VIP_BUFFER_QUANTIZE_TF_ASYMM) {
        params.quant_data.affine.scale = scale;
        params.quant_data.affine.zeroPoint = zero_point;
    }
    return params;
}

static inline vip_buffer make_buffer(vip_network network, query_tensor *query,
                                     vip_uint32_t index) {
    vip_buffer_create_params_t params = describe(network, query, index);
    vip_buffer buffer = NULL;
    REQUIRE(vip_create_buffer(&params, sizeof params, &buffer) == VIP_SUCCESS && buffer);
    return buffer;
}

#endif
