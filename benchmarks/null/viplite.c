/* A device that computes nothing: vip_* functions whose runs take a set time on a device.
 *
 * What a runtime costs shows on it, and whether it keeps the devices busy. Environment:
 *
 *     NULL_DEVICE_CORES     microseconds of a run on each device, such as 10000,10000
 *     NULL_DEVICE_INPUT     sizes of the only input, innermost first, such as 224,224,3,1
 *     NULL_DEVICE_OUTPUT    sizes of the only output
 *
 * Both are uint8 with scale 1 and zero point 0; a run fills the output with the input's first byte.
 */
#include <stdio.h>
#include <string.h>

#include "cores.h"
#include "vip_lite.h"

#define MAX_DIMS 6

struct _vip_buffer {
    vip_uint8_t *memory;
    vip_uint32_t size;
};

struct _vip_network {
    struct _vip_buffer *input, *output;
    vip_uint32_t device;
    int is_prepared;
};

struct tensor {
    const char *name;
    vip_uint32_t count, sizes[MAX_DIMS], elements;
};

static struct tensor input = {.name = "x"}, output = {.name = "y"};
static int users;

static void describe(struct tensor *tensor, const char *variable, const char *otherwise) {
    long sizes[MAX_DIMS];
    tensor->count = (vip_uint32_t)read_numbers(variable, otherwise, sizes, MAX_DIMS);
    tensor->elements = 1;
    for (vip_uint32_t i = 0; i < tensor->count; i++) {
        tensor->sizes[i] = (vip_uint32_t)sizes[i];
        tensor->elements *= tensor->sizes[i];
    }
}

EXPORT vip_uint32_t vip_get_version(void) {
    return 0x00020000;
}

EXPORT vip_status_e vip_init(void) {
    if (!users++) {
        core_count = read_numbers("NULL_DEVICE_CORES", "0,0,0", core_times, MAX_CORES);
        describe(&input, "NULL_DEVICE_INPUT", "4,4,3,1");
        describe(&output, "NULL_DEVICE_OUTPUT", "4,4,3,1");
    }
    return VIP_SUCCESS;
}

EXPORT vip_status_e vip_destroy(void) {
    users--;
    return VIP_SUCCESS;
}

EXPORT vip_status_e vip_query_hardware(vip_query_hardware_property_e property, vip_uint32_t size,
                                       void *value) {
    vip_uint32_t *words = value;
    (void)size;
    if (property == VIP_QUERY_HW_PROP_CORE_COUNT_EACH_DEVICE)
        for (int i = 0; i < core_count; i++)
            words[i] = 1;
    else
        *words = property == VIP_QUERY_HW_PROP_DEVICE_COUNT ? (vip_uint32_t)core_count : 0;
    return VIP_SUCCESS;
}

static vip_network add(void) {
    return calloc(1, sizeof(struct _vip_network));
}

EXPORT vip_status_e vip_create_network(const void *data, vip_uint32_t size,
                                       vip_create_network_type_e type, vip_network *network) {
    (void)data, (void)size, (void)type;
    *network = add();
    return *network ? VIP_SUCCESS : VIP_ERROR_OUT_OF_MEMORY;
}

EXPORT vip_status_e vip_dup_network(const void *data, vip_uint32_t size,
                                    vip_dup_network_type_e type, vip_network network,
                                    vip_network *duplicate) {
    (void)data, (void)size, (void)type, (void)network;
    *duplicate = add();
    return *duplicate ? VIP_SUCCESS : VIP_ERROR_OUT_OF_MEMORY;
}

EXPORT vip_status_e vip_destroy_network(vip_network network) {
    free(network);
    return VIP_SUCCESS;
}

EXPORT vip_status_e vip_query_network(vip_network network, vip_enum property, void *value) {
    (void)network;
    switch (property) {
    case VIP_NETWORK_PROP_INPUT_COUNT:
    case VIP_NETWORK_PROP_OUTPUT_COUNT:
        *(vip_uint32_t *)value = 1;
        return VIP_SUCCESS;
    case VIP_NETWORK_PROP_NETWORK_NAME:
        strcpy(value, "null device");
        return VIP_SUCCESS;
    default:
        return VIP_ERROR_NOT_SUPPORTED;
    }
}

static vip_status_e query(const struct tensor *tensor, vip_enum property, void *value) {
    switch (property) {
    case VIP_BUFFER_PROP_NUM_OF_DIMENSION:
        *(vip_uint32_t *)value = tensor->count;
        break;
    case VIP_BUFFER_PROP_SIZES_OF_DIMENSION:
        memcpy(value, tensor->sizes, sizeof tensor->sizes);
        break;
    case VIP_BUFFER_PROP_DATA_FORMAT:
        *(vip_int32_t *)value = VIP_BUFFER_FORMAT_UINT8;
        break;
    case VIP_BUFFER_PROP_QUANT_FORMAT:
        *(vip_int32_t *)value = VIP_BUFFER_QUANTIZE_TF_ASYMM;
        break;
    case VIP_BUFFER_PROP_TF_SCALE:
        *(vip_float_t *)value = 1;
        break;
    case VIP_BUFFER_PROP_NAME:
        strcpy(value, tensor->name);
        break;
    default:
        *(vip_int32_t *)value = 0;
    }
    return VIP_SUCCESS;
}

EXPORT vip_status_e vip_query_input(vip_network network, vip_uint32_t index, vip_enum property,
                                    void *value) {
    (void)network;
    return index ? VIP_ERROR_INVALID_ARGUMENTS : query(&input, property, value);
}

EXPORT vip_status_e vip_query_output(vip_network network, vip_uint32_t index, vip_enum property,
                                     void *value) {
    (void)network;
    return index ? VIP_ERROR_INVALID_ARGUMENTS : query(&output, property, value);
}

EXPORT vip_status_e vip_set_network(vip_network network, vip_enum property, void *value) {
    if (property == VIP_NETWORK_PROP_SET_DEVICE_INDEX)
        network->device = *(vip_uint32_t *)value;
    return network->device < (vip_uint32_t)core_count ? VIP_SUCCESS : VIP_ERROR_INVALID_ARGUMENTS;
}

EXPORT vip_status_e vip_prepare_network(vip_network network) {
    network->is_prepared = 1;
    return VIP_SUCCESS;
}

EXPORT vip_status_e vip_finish_network(vip_network network) {
    network->is_prepared = 0;
    return VIP_SUCCESS;
}

EXPORT vip_status_e vip_create_buffer(vip_buffer_create_params_t *param, vip_uint32_t size,
                                      vip_buffer *buffer) {
    (void)size;
    *buffer = calloc(1, sizeof **buffer);
    (*buffer)->size = 1;
    for (vip_uint32_t i = 0; i < param->num_of_dims; i++)
        (*buffer)->size *= param->sizes[i];
    (*buffer)->memory = calloc(1, (*buffer)->size);
    return VIP_SUCCESS;
}

EXPORT vip_status_e vip_destroy_buffer(vip_buffer buffer) {
    free(buffer->memory);
    free(buffer);
    return VIP_SUCCESS;
}

EXPORT void *vip_map_buffer(vip_buffer buffer) {
    return buffer->memory;
}

EXPORT vip_status_e vip_unmap_buffer(vip_buffer buffer) {
    (void)buffer;
    return VIP_SUCCESS;
}

EXPORT vip_uint32_t vip_get_buffer_size(vip_buffer buffer) {
    return buffer->size;
}

EXPORT vip_status_e vip_flush_buffer(vip_buffer buffer, vip_buffer_operation_type_e type) {
    (void)buffer;
    return type == VIP_BUFFER_OPER_TYPE_NONE ? VIP_ERROR_INVALID_ARGUMENTS : VIP_SUCCESS;
}

EXPORT vip_status_e vip_set_input(vip_network network, vip_uint32_t index, vip_buffer buffer) {
    (void)index;
    network->input = buffer;
    return VIP_SUCCESS;
}

EXPORT vip_status_e vip_set_output(vip_network network, vip_uint32_t index, vip_buffer buffer) {
    (void)index;
    network->output = buffer;
    return VIP_SUCCESS;
}

EXPORT vip_status_e vip_run_network(vip_network network) {
    if (!network->is_prepared)
        return VIP_ERROR_NETWORK_NOT_PREPARED;
    if (!network->input || !network->output)
        return VIP_ERROR_MISSING_INPUT_OUTPUT;
    run_on_core(1 << network->device);
    memset(network->output->memory, network->input->memory[0], network->output->size);
    return VIP_SUCCESS;
}
