/* int8 NC1HWC2 to float32 NCHW as one writes it at first: element by element, in two passes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct blocks {
    size_t channels, height, width, block;
    float scale;
    int32_t zero_point;
};

__attribute__((visibility("default"))) int unpack(const struct blocks *how, const int8_t *blocks,
                                                  float *planes) {
    size_t count = (how->channels + how->block - 1) / how->block;
    size_t elements = how->channels * how->height * how->width;
    int8_t *flat = malloc(elements);
    if (!flat)
        return -1;
    for (size_t outer = 0; outer < count; outer++)
        for (size_t y = 0; y < how->height; y++)
            for (size_t x = 0; x < how->width; x++)
                for (size_t inner = 0; inner < how->block; inner++) {
                    size_t channel = outer * how->block + inner;
                    if (channel < how->channels)
                        flat[(channel * how->height + y) * how->width + x] =
                            blocks[((outer * how->height + y) * how->width + x) * how->block +
                                   inner];
                }
    for (size_t i = 0; i < elements; i++)
        planes[i] = ((float)flat[i] - (float)how->zero_point) * how->scale;
    free(flat);
    return 0;
}
