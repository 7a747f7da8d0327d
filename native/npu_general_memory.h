/* Features between memory and (pixels, GROUP) floats, for npu_general.c: a group's channels of neighbours are
 * loaded, and stored in whole atoms. */
#ifndef ANYNPU_NPU_GENERAL_MEMORY_H
#define ANYNPU_NPU_GENERAL_MEMORY_H

#include <stdint.h>
#include <string.h>

#include "npu_general_elements.h"

#ifdef AVX512
/* All channels of a group, from `offset` in its surfaces on; whether there is a quick way. */
static int load_whole(const struct features *f, int64_t g, int64_t offset, int64_t step,
                      int64_t count, float *v) {
    const int64_t atoms = GROUP / f->lanes, s = g * atoms;
    const uint8_t *surfaces[4];
    if (!(f->element == FLOAT16 && (atoms == 2 || atoms == 4)) &&
        !(f->element == FLOAT32 && atoms == 4))
        return 0;
    for (int64_t i = 0; i < atoms; i++)
        surfaces[i] = surface_of(f, s + i) + offset;
    if (atoms == 2)
        widen_two(surfaces[0], surfaces[1], step, count, v, GROUP);
    else if (f->element == FLOAT16)
        widen_four_halves(surfaces, step, count, v, GROUP);
    else
        widen_four(surfaces, step, count, v);
    return 1;
}
#endif

/* A group's values of `count` neighbours in a row; channels that aren't valid are zero. */
static void load_row(const struct features *f, int64_t g, int64_t y, int64_t x, int64_t step,
                     int64_t count, float *v) {
    const int64_t first = g * GROUP, last = least(f->valid, first + GROUP);
#ifdef AVX512
    if (has_avx512(running_form) && last == first + GROUP &&
        load_whole(f, g, y * f->line + x * f->pixel, step * f->pixel, count, v))
        return;
#endif
    if (last < first + GROUP)
        memset(v, 0, count * GROUP * sizeof *v);
    for (int64_t c = first; c < last; c += f->lanes) {
        /* Lanes past the last channel do no harm, and whole atoms are faster. */
        const int64_t lanes = f->valid < f->channels ? least(f->lanes, last - c) : f->lanes;
        widen(surface_of(f, c / f->lanes) + y * f->line + x * f->pixel, step * f->pixel, count,
              v + (c - first), GROUP, lanes, f->element);
    }
}

/* The same for `count` pixels from number `first` on. */
static void load(const struct features *f, int64_t g, int64_t first, int64_t count, float *v) {
    int64_t y = first / f->width, x = first % f->width;
    while (count) {
        const int64_t n = least(count, f->width - x);
        load_row(f, g, y, x, 1, n, v);
        v += n * GROUP, count -= n, x = 0, y++;
    }
}

/* A group's numbers, or what changes nothing. */
static void load_operand(const struct operand *o, int64_t g, float nothing, float *numbers) {
    if (o->values) {
        memcpy(numbers, (const float *)o->values + g * GROUP, GROUP * sizeof *numbers);
        return;
    }
    for (int l = 0; l < GROUP; l++) {
        const int64_t c = g * GROUP + l;
        if (o->stored)
            numbers[l] = c < o->channels ? element_at(o->stored + c / o->group * o->stride,
                                                      c % o->group, o->element)
                                         : 0;
        else
            numbers[l] = nothing;
    }
}

/* Fill the lanes of the last atom that no channel has, of `count` pixels. */
static void pad(const struct writer *w, int64_t g, int64_t count, uint8_t *q, int64_t size) {
    const int64_t channels = w->channels - g * GROUP;
    const int64_t end = least((channels + w->lanes - 1) / w->lanes * w->lanes, GROUP);
    const uint64_t padding = size == 4 ? 0 : (uint64_t)w->padding;
    uint8_t lanes[GROUP * 4];
    if (channels >= end)
        return;
    for (int64_t b = 0; b < (end - channels) * size; b++)
        lanes[b] = (uint8_t)(padding >> 8 * (b % size));
    for (int64_t i = 0; i < count; i++)
        memcpy(q + (i * GROUP + channels) * size, lanes, (end - channels) * size);
}

/* Store `count` pixels' atoms of one group; `size` is that of an element. */
static void store(const struct writer *w, int64_t g, int64_t first, int64_t count, uint8_t *q,
                  int64_t size) {
    const int64_t surfaces = (w->channels + w->lanes - 1) / w->lanes, atom = w->lanes * size;
    pad(w, g, count, q, size);
    for (int64_t l = 0; l < GROUP; l += w->lanes) {
        const int64_t s = (g * GROUP + l) / w->lanes;
        if (s >= surfaces)
            break;
        uint8_t *surface = w->base + s / w->group * w->group_stride + s % w->group * w->surface;
        int64_t y = first / w->width, x = first % w->width;
        const uint8_t *from = q + l * size;
        for (int64_t left = count; left;) {
            const int64_t n = least(left, w->width - x);
            uint8_t *to = surface + y * w->line + x * w->pixel;
            if (atom == 16)
                for (int64_t i = 0; i < n; i++)
                    memcpy(to + i * w->pixel, from + i * GROUP * size, 16);
            else if (atom == 8)
                for (int64_t i = 0; i < n; i++)
                    memcpy(to + i * w->pixel, from + i * GROUP * size, 8);
            else
                for (int64_t i = 0; i < n; i++)
                    memcpy(to + i * w->pixel, from + i * GROUP * size, atom);
            from += n * GROUP * size, left -= n, x = 0, y++;
        }
    }
}

#endif
