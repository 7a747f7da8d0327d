/* Rows of pixels in VeriSilicon's planes: where they are, and bytes from and to them. */
#ifndef ANYNPU_VIP_PLANES_H
#define ANYNPU_VIP_PLANES_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "vip.h"

INLINE int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

INLINE int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

INLINE int64_t up_to(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* A row's pixels: `count` of them from `first` on, what is left from `rest` on. */
struct row {
    uint8_t *first;
    uint8_t *rest;
    int64_t count;
};

/* A channel's first byte, from the beginning of its memory. */
INLINE int64_t channel_of(const struct planes *p, int64_t channel) {
    if (p->group == 1)
        return p->offset + channel * p->plane;
    return p->offset + channel / p->group * p->plane + channel % p->group;
}

/* A row of the channel that begins there. */
INLINE struct row row_at(const struct planes *p, int64_t address, int64_t y, int64_t width) {
    address += y * p->row * p->group;
    if (!p->size)
        return (struct row){p->base + address, p->base, width};
    if (address >= p->end)
        address -= ((address - p->end) / p->size + 1) * p->size;
    const int64_t room = p->end - address;
    if (room >= width * p->group)
        return (struct row){p->base + address, p->base, width};
    const int64_t before = least((room + p->group - 1) / p->group, width);
    return (struct row){p->base + address, p->base + address + before * p->group - p->size, before};
}

INLINE struct row row_of(const struct planes *p, int64_t channel, int64_t y, int64_t width) {
    return row_at(p, channel_of(p, channel), y, width);
}

/* Few bytes are quicker without a call. */
INLINE void copy_bytes(uint8_t *to, const uint8_t *from, int64_t count) {
    if (count >= 64) {
        memcpy(to, from, (size_t)count);
    } else if (count >= 16) {
        for (int64_t i = 0; i + 16 <= count; i += 16)
            memcpy(to + i, from + i, 16);
        memcpy(to + count - 16, from + count - 16, 16);
    } else if (count >= 8) {
        memcpy(to, from, 8);
        memcpy(to + count - 8, from + count - 8, 8);
    } else if (count >= 4) {
        memcpy(to, from, 4);
        memcpy(to + count - 4, from + count - 4, 4);
    } else {
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i];
    }
}

INLINE void store_part(uint8_t *to, int64_t step, uint8_t flip, const uint8_t *bytes,
                       int64_t count) {
    if (step == 1 && !flip)
        copy_bytes(to, bytes, count);
    else
        for (int64_t x = 0; x < count; x++)
            to[x * step] = bytes[x] ^ flip;
}

#endif
