/* One network, from a file and from memory that is freed: say what it is, run it, write outputs.
 * usage: general MODEL INPUT OUTPUT */
#include "program.h"

static void print_tensor(const char *side, vip_network network, query_tensor *query,
                         vip_uint32_t index) {
    char name[64];
    vip_buffer_create_params_t params = describe(network, query, index);
    REQUIRE(query(network, index, VIP_BUFFER_PROP_NAME, name) == VIP_SUCCESS);
    printf("%s %s sizes", side, name);
    for (vip_uint32_t i = 0; i < params.num_of_dims; i++)
        printf(" %u", params.sizes[i]);
    printf(" format %d quantisation %d\n", params.data_format, params.quant_format);
}

static void misuse(vip_network network, vip_buffer buffer) {
    vip_network none = (vip_network)(size_t)0x777;
    REQUIRE(vip_run_network(none) == VIP_ERROR_INVALID_ARGUMENTS);
    REQUIRE(vip_run_network(NULL) == VIP_ERROR_INVALID_ARGUMENTS);
    REQUIRE(vip_set_input(network, 99, buffer) == VIP_ERROR_INVALID_ARGUMENTS);
    REQUIRE(vip_query_network(network, VIP_NETWORK_PROP_LAYER_COUNT, NULL) ==
            VIP_ERROR_INVALID_ARGUMENTS);
    REQUIRE(vip_create_network("/none", 0, VIP_CREATE_NETWORK_FROM_FILE, &none) == VIP_ERROR_IO);
    REQUIRE(!none);
}

static void use(vip_network network, const char *input, FILE *output) {
    vip_uint32_t inputs = count(network, VIP_NETWORK_PROP_INPUT_COUNT);
    vip_uint32_t outputs = count(network, VIP_NETWORK_PROP_OUTPUT_COUNT);
    REQUIRE(inputs == 1 && outputs == 1);
    print_tensor("input", network, vip_query_input, 0);
    print_tensor("output", network, vip_query_output, 0);
    vip_buffer source = make_buffer(network, vip_query_input, 0);
    vip_buffer target = make_buffer(network, vip_query_output, 0);
    REQUIRE(vip_set_input(network, 0, source) == VIP_ERROR_NETWORK_NOT_PREPARED);
    REQUIRE(vip_prepare_network(network) == VIP_SUCCESS);
    REQUIRE(vip_run_network(network) == VIP_ERROR_MISSING_INPUT_OUTPUT);
    misuse(network, source);

    size_t size;
    void *data = read_file(input, &size);
    REQUIRE(size == vip_get_buffer_size(source));
    memcpy(vip_map_buffer(source), data, size);
    free(data);
    REQUIRE(vip_unmap_buffer(source) == VIP_SUCCESS);
    REQUIRE(vip_flush_buffer(source, VIP_BUFFER_OPER_TYPE_FLUSH) == VIP_SUCCESS);
    for (int run = 0; run < 3; run++) {
        REQUIRE(vip_set_input(network, 0, source) == VIP_SUCCESS);
        REQUIRE(vip_set_output(network, 0, target) == VIP_SUCCESS);
        REQUIRE(vip_run_network(network) == VIP_SUCCESS);
    }
    append_file(output, target);
    REQUIRE(vip_finish_network(network) == VIP_SUCCESS);
    REQUIRE(vip_destroy_network(network) == VIP_SUCCESS);
    REQUIRE(vip_destroy_network(network) == VIP_ERROR_INVALID_ARGUMENTS);
    REQUIRE(vip_destroy_buffer(source) == VIP_SUCCESS);
    REQUIRE(vip_destroy_buffer(target) == VIP_SUCCESS);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 4);
    printf("version %#x\n", vip_get_version());
    start_driver();
    FILE *output = fopen(argv[3], "wb");
    REQUIRE(output);
    vip_network network = NULL;
    REQUIRE(vip_create_network(argv[1], 0, VIP_CREATE_NETWORK_FROM_FILE, &network) == VIP_SUCCESS);
    use(network, argv[2], output);
    size_t size;
    void *model = read_file(argv[1], &size);
    REQUIRE(vip_create_network(model, (vip_uint32_t)size, VIP_CREATE_NETWORK_FROM_MEMORY,
                               &network) == VIP_SUCCESS);
    memset(model, 0, size);
    free(model);
    use(network, argv[2], output);
    REQUIRE(!fclose(output));
    REQUIRE(vip_destroy() == VIP_SUCCESS);
    REQUIRE(vip_destroy() == VIP_ERROR_FAILURE);
    return 0;
}
