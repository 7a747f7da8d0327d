/* Programs of VeriSilicon's stream processor: float32, a block of elements at a time, a unit's work on
 * all of them before the next one's.
 *
 * src/anynpu/soft/engines/vip/stream/ says what a program is and computes it in NumPy; every result here
 * is that one, bit for bit: each is rounded once, and rows are summed in NumPy's order. The caller has
 * found that all planes lie inside their memory, that no two results share a byte, and that none is read.
 */
#ifndef ANYNPU_VIP_STREAM_H
#define ANYNPU_VIP_STREAM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "half.h"
#include "vip.h"
#include "vip_planes.h"

enum {
    STREAM_INPUTS = 2,
    STREAM_BLOCK = 256, /* elements of sums that become bytes together */
    STREAM_UNITS = 16,  /* units of a program that does so, at most */
    SUMMED = 8,         /* sums that a row's are made of side by side */
    SUMMED_TOGETHER = 128,
};

/* What a unit reads of each element: an array, or one number. */
struct values {
    const float *at;
    float one;
};

/* Where a program is: results of its units, `pitch` apart; what lies before; the block's first element. */
struct evaluation {
    float *results;
    int64_t pitch;
    const float *inputs[STREAM_INPUTS];
    const struct stream_queue *queues[2];
    const float *ring;
    int64_t ring_rows;
    int64_t rings;
    int64_t length;
    int64_t row;
    int64_t place;
};

INLINE struct values array_of(const float *at) {
    return (struct values){at, 0};
}

INLINE struct values number_of(double value) {
    return (struct values){NULL, (float)value};
}

/* An operand's values; 0 where a queue that is empty would give them. */
INLINE int find_values(const struct evaluation *e, const struct stream_operand *o,
                       struct values *found) {
    switch (o->origin) {
    case OF_NUMBER: *found = number_of(o->value); return 1;
    case OF_INPUT: *found = array_of(e->inputs[o->number]); return 1;
    case OF_UNIT: *found = array_of(e->results + o->number * e->pitch); return 1;
    case OF_QUEUE:
        *found = array_of(e->queues[o->queue]->held + e->row * e->length + e->place);
        return 1;
    case OF_QUEUE_BY_ROW: *found = number_of(e->queues[o->queue]->held[e->row]); return 1;
    case OF_QUEUE_AGAIN: *found = array_of(e->queues[o->queue]->held + e->place); return 1;
    case OF_EARLIER_ROW:
        if (e->row >= o->back) {
            const int64_t kept = (e->row - o->back) % e->ring_rows * e->rings + o->ring;
            *found = array_of(e->ring + kept * e->length + e->place);
        } else if (o->queue < 0) {
            *found = number_of(o->value);
        } else if (e->queues[o->queue]->held) {
            *found = array_of(e->queues[o->queue]->held + e->place);
        } else {
            return 0;
        }
        return 1;
    default: *found = number_of(0); return 1;
    }
}

/* What a unit makes of two numbers. */
INLINE float of_two(int64_t unit, float a, float b, float low, float high) {
    if (unit == UNIT_SUM)
        return a + b;
    if (unit == UNIT_DIFFERENCE)
        return a - b;
    float product = a * b;
    if (unit == UNIT_LIMITED_PRODUCT) {
        product = product < low ? low : product;
        product = product > high ? high : product;
    }
    return product;
}

INLINE void each_of_two(int64_t unit, struct values a, struct values b, float low, float high,
                        float *to, int64_t count) {
    if (a.at && b.at)
        for (int64_t i = 0; i < count; i++)
            to[i] = of_two(unit, a.at[i], b.at[i], low, high);
    else if (a.at)
        for (int64_t i = 0; i < count; i++)
            to[i] = of_two(unit, a.at[i], b.one, low, high);
    else if (b.at)
        for (int64_t i = 0; i < count; i++)
            to[i] = of_two(unit, a.one, b.at[i], low, high);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = of_two(unit, a.one, b.one, low, high);
}

INLINE float number_at(struct values v, int64_t i) {
    return v.at ? v.at[i] : v.one;
}

/* What is no number has a sign that processors don't agree on. */
INLINE float without_sign(float argument) {
    return argument == argument ? argument : float_of_bits(0x7FC00000);
}

/* One of a table's three results for an argument: `is_signed` and `unit` are known where this is compiled. */
INLINE float looked_up(const struct stream_table *t, int is_signed, int64_t unit, float argument) {
    const int exponent_bits = (int)t->exponent_bits, bits = 10 - is_signed - exponent_bits;
    const uint32_t mask = (1u << (bits + exponent_bits)) - 1, within = (1u << (23 - bits)) - 1;
    const uint32_t all = bits_of_float(argument), raw = all & 0xFFFFFF00;
    const int exponent = (int)(raw >> 23 & 255) - 127, half = 1 << exponent_bits >> 1;
    const uint32_t place = raw >> (23 - bits) & mask, top = is_signed ? raw >> 31 << 9 : 0;
    const int is_small = is_signed && exponent<1 - half, is_large = exponent> half;
    const float unit_power = float_of_bits((uint32_t)(half - 1 + 127) << 23);
    if (unit == UNIT_FRACTION) {
        const float part = (float)(int32_t)(raw & within) *
                           float_of_bits((uint32_t)(127 - 23 + bits) << 23),
                    middle = (argument * unit_power + 1) * 0.5f;
        return is_small ? middle : part;
    }
    const uint32_t first = (uint32_t)(1 - half + 127) << bits & mask;
    float entry = t->values[is_small ? first | 512 : place | top];
    const float following = t->values[is_small ? first : ((place + 1) & mask) | top];
    if (unit == UNIT_ENTRY)
        return is_large ? (raw >> 31 ? (float)t->low : (float)t->high) : entry;
    return is_large ? 0 : following - entry;
}

/* The same of a function whose results get the argument's sign. */
INLINE float looked_up_odd(const struct stream_table *t, int64_t unit, float argument) {
    const int half = 1 << t->exponent_bits >> 1;
    const float least = float_of_bits((uint32_t)(1 - half + 127) << 23),
                beyond = float_of_bits((uint32_t)(1 + half + 127) << 23),
                last = float_of_bits(((uint32_t)(1 + half + 127) << 23) - 1),
                magnitude = fabsf(argument);
    float inside = magnitude < least ? least : magnitude;
    inside = inside > last ? last : inside;
    const float found = looked_up(t, 0, unit, inside), sign = copysignf(1, argument);
    if (unit == UNIT_FRACTION)
        return found;
    const float limited = magnitude > 0x1.fffffep127f ? 0x1.fffffep127f : magnitude,
                further = unit == UNIT_ENTRY ? limited * (float)t->high : 0;
    return (magnitude >= beyond ? further : found) * sign;
}

/* The unit's own hyperbolic tangent: beneath the first entry, between those of both signs. */
INLINE float looked_up_tangent(const struct stream_table *t, int64_t unit, float argument) {
    const float least = 0x1p-7f, last = 0x1.fffffep8f, magnitude = fabsf(argument);
    float inside = magnitude < least ? least : magnitude;
    inside = inside > last ? last : inside;
    const int is_small = magnitude < least;
    const float found = looked_up(t, 0, unit, inside), sign = copysignf(1, argument);
    if (unit == UNIT_FRACTION)
        return is_small ? (1 - magnitude / least) * 0.5f : found;
    if (unit == UNIT_ENTRY)
        return found * sign;
    return (is_small ? -2 * looked_up(t, 0, UNIT_ENTRY, inside) : found) * sign;
}

INLINE void look_up_all(const struct stream_table *t, int64_t unit, struct values a, float *to,
                        int64_t count) {
    if (t->form == TABLE_ODD)
        for (int64_t i = 0; i < count; i++)
            to[i] = looked_up_odd(t, unit, without_sign(number_at(a, i)));
    else if (t->form == TABLE_TANGENT)
        for (int64_t i = 0; i < count; i++)
            to[i] = looked_up_tangent(t, unit, without_sign(number_at(a, i)));
    else if (t->is_signed && a.at)
        for (int64_t i = 0; i < count; i++)
            to[i] = looked_up(t, 1, unit, without_sign(a.at[i]));
    else if (t->is_signed)
        for (int64_t i = 0; i < count; i++)
            to[i] = looked_up(t, 1, unit, without_sign(a.one));
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = looked_up(t, 0, unit, without_sign(number_at(a, i)));
}

INLINE void one_unit(const struct stream_program *p, const struct stream_node *node,
                     struct values a, struct values b, struct values c, float *to, int64_t count) {
    const float low = (float)p->low, high = (float)p->high;
    switch (node->unit) {
    case UNIT_PRODUCT: each_of_two(UNIT_PRODUCT, a, b, low, high, to, count); break;
    case UNIT_LIMITED_PRODUCT: each_of_two(UNIT_LIMITED_PRODUCT, a, b, low, high, to, count); break;
    case UNIT_SUM: each_of_two(UNIT_SUM, a, b, low, high, to, count); break;
    case UNIT_DIFFERENCE: each_of_two(UNIT_DIFFERENCE, a, b, low, high, to, count); break;
    case UNIT_SIZE:
        for (int64_t i = 0; i < count; i++)
            to[i] = fabsf(number_at(a, i));
        break;
    case UNIT_CHOICE:
        for (int64_t i = 0; i < count; i++)
            to[i] = number_at(a, i) > 0 ? number_at(b, i) : number_at(c, i);
        break;
    case UNIT_COPY:
        for (int64_t i = 0; i < count; i++)
            to[i] = number_at(a, i);
        break;
    case UNIT_ENTRY: look_up_all(node->table, UNIT_ENTRY, a, to, count); break;
    case UNIT_FRACTION: look_up_all(node->table, UNIT_FRACTION, a, to, count); break;
    default: look_up_all(node->table, UNIT_STEP, a, to, count);
    }
}

/* All units' results of `count` elements. */
INLINE void evaluate(const struct stream_program *p, const struct evaluation *e, int64_t count) {
    for (int64_t n = 0; n < p->count; n++) {
        const struct stream_node *node = p->nodes + n;
        float *const to = e->results + n * e->pitch;
        struct values a, b, c;
        if (find_values(e, &node->a, &a) && find_values(e, &node->b, &b) &&
            find_values(e, &node->c, &c)) {
            one_unit(p, node, a, b, c, to, count);
        } else {
            for (int64_t i = 0; i < count; i++)
                to[i] = (float)node->initial;
        }
    }
}

/* Real numbers as bytes: whole before the zero point; what is no number is zero. */
INLINE void round_bytes(const struct stream_program *p, struct values values, int64_t first,
                        int64_t step, uint8_t *bytes, int64_t count) {
    const int32_t zero_point = (int32_t)p->zero_point;
    for (int64_t i = 0; i < count; i++) {
        float value = number_at(values, first + i * step);
        value = value == value ? value : 0;
        value = value < -1024 ? -1024 : value;
        value = value > 1024 ? 1024 : value;
        const int32_t even = (int32_t)(value + 0x1.8p23f - 0x1.8p23f),
                      away = (int32_t)(value + copysign(0.5, value));
        int32_t whole = (p->halves_go_away ? away : even) + zero_point;
        whole = whole < 0 ? 0 : whole;
        bytes[i] = (uint8_t)(whole > 255 ? 255 : whole);
    }
}

/* A convolution's sums as bytes, by a program of at most STREAM_UNITS units. */
INLINE void stream_bytes_inline(const struct stream_program *p, const int32_t *sums, int64_t count,
                                uint8_t *bytes) {
    float results[STREAM_UNITS * STREAM_BLOCK], inputs[STREAM_BLOCK];
    const struct evaluation e = {
        .results = results, .pitch = STREAM_BLOCK, .inputs = {inputs, inputs}};
    for (int64_t first = 0; first < count; first += STREAM_BLOCK) {
        const int64_t there = least(count - first, STREAM_BLOCK);
        for (int64_t i = 0; i < there; i++)
            inputs[i] = (float)sums[first + i];
        evaluate(p, &e, there);
        struct values output;
        find_values(&e, &p->output, &output);
        round_bytes(p, output, 0, 1, bytes + first, there);
    }
}

/* ------------------------------------------------------------------------------------- lines */

INLINE float whole_half(uint16_t half) {
    const float value = float_of_half(half);
    return fabsf(value) < 0x1p-14f ? copysignf(0, value) : value;
}

INLINE void load_bytes(const struct stream_input *in, const uint8_t *from, float *to,
                       int64_t count) {
    const int64_t step = in->planes.group;
    const uint8_t flip = (uint8_t)in->flip;
    const int32_t addend = (int32_t)in->addend;
    if (step == 1)
        for (int64_t x = 0; x < count; x++)
            to[x] = (float)((from[x] ^ flip) + addend);
    else
        for (int64_t x = 0; x < count; x++)
            to[x] = (float)((from[x * step] ^ flip) + addend);
}

/* A line of `width` values, which may be cut by the end of a circular buffer. */
INLINE void load_line(const struct stream_input *in, int64_t channel, int64_t y, int64_t width,
                      float *to) {
    const struct planes *p = &in->planes;
    const int64_t size = in->form == FORM_FLOATS ? 4 : in->form == FORM_HALVES ? 2 : 1;
    const struct row row = row_of(p, channel, y, size * width);
    if (in->form == FORM_BYTES) {
        load_bytes(in, row.first, to, row.count);
        load_bytes(in, row.rest, to + row.count, width - row.count);
        return;
    }
    /* Halves wait at the end of the line that they become. */
    uint8_t *const bytes = (uint8_t *)to + (4 - size) * width;
    memcpy(bytes, row.first, (size_t)row.count);
    memcpy(bytes + row.count, row.rest, (size_t)(size * width - row.count));
    if (in->form == FORM_HALVES)
        for (int64_t x = 0; x < width; x++) {
            uint16_t half;
            memcpy(&half, bytes + 2 * x, sizeof half);
            to[x] = whole_half(half);
        }
}

/* Every `step`-th of some values as float16 or float32. */
INLINE void store_reals(struct values values, int64_t first, int64_t step, int is_half,
                        uint8_t *bytes, int64_t count) {
    for (int64_t x = 0; x < count; x++) {
        const float value = number_at(values, first + x * step);
        if (is_half) {
            const float kept = fabsf(value) < 0x1p-14f ? copysignf(0, value) : value;
            const uint16_t half = half_of_float(kept);
            memcpy(bytes + 2 * x, &half, sizeof half);
        } else {
            memcpy(bytes + 4 * x, &value, sizeof value);
        }
    }
}

/* Every `stride`-th of a line's values, from the `first` of an array on. */
INLINE void store_line(const struct stream *s, struct values values, int64_t first, int64_t channel,
                       int64_t y) {
    const int64_t step = s->stride, count = (s->width + step - 1) / step;
    const int64_t size = s->form == FORM_FLOATS ? 4 : s->form == FORM_HALVES ? 2 : 1;
    const int64_t group = s->target.group;
    const struct row row = row_of(&s->target, channel, y, size * count);
    uint8_t bytes[4 * STREAM_BLOCK];
    for (int64_t x = 0; x < count; x += STREAM_BLOCK) {
        const int64_t there = least(count - x, STREAM_BLOCK), at = size * x;
        if (s->form == FORM_BYTES)
            round_bytes(s->program, values, first + x * step, step, bytes, there);
        else
            store_reals(values, first + x * step, step, s->form == FORM_HALVES, bytes, there);
        const int64_t before = most(least(row.count - at, size * there), 0);
        store_part(row.first + at * group, group, 0, bytes, before);
        store_part(row.rest + most(at - row.count, 0) * group, group, 0, bytes + before,
                   size * there - before);
    }
}

/* -------------------------------------------------------------------------------------- rows */

/* A sum's part in NumPy's order: eight side by side, of at most 128 numbers; of more, of two halves. */
static float part_of_sum(const float *values, int64_t count) {
    if (count < SUMMED) {
        float total = 0;
        for (int64_t i = 0; i < count; i++)
            total += values[i];
        return total;
    }
    if (count > SUMMED_TOGETHER) {
        const int64_t half = count / 2 - count / 2 % SUMMED;
        return part_of_sum(values, half) + part_of_sum(values + half, count - half);
    }
    float sums[SUMMED];
    memcpy(sums, values, sizeof sums);
    int64_t i = SUMMED;
    for (; i < count - count % SUMMED; i += SUMMED)
        for (int k = 0; k < SUMMED; k++)
            sums[k] += values[i + k];
    float total =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; i < count; i++)
        total += values[i];
    return total;
}

/* A sum begins with 0, so that one of negative zeros has no sign. */
static float sum_of_row(const float *values, int64_t count) {
    return 0 + part_of_sum(values, count);
}

INLINE float maximum_of(const float *values, int64_t count) {
    float found = values[0];
    for (int64_t i = 1; i < count; i++)
        found = values[i] > found || values[i] != values[i] ? values[i] : found;
    return found;
}

INLINE void copy_values(const struct evaluation *e, const struct stream_operand *o, float *to,
                        int64_t count) {
    struct values values;
    find_values(e, o, &values);
    for (int64_t i = 0; i < count; i++)
        to[i] = number_at(values, i);
}

/* A row's lines `first` to `end`: what its units make, and where that goes. `rows` are for summands. */
INLINE void stream_lines(const struct stream *s, struct evaluation *e, int64_t first, int64_t end,
                         float *inputs, float *ring, float *rows) {
    const struct stream_input *const in[STREAM_INPUTS] = {&s->first, &s->second};
    const int64_t width = s->width, count = (end - first) * width, line = e->row * s->lines;
    for (int64_t i = 0; i < s->inputs; i++)
        for (int64_t l = first; l < end; l++)
            load_line(in[i], (line + l) / s->height, (line + l) % s->height, width,
                      inputs + i * e->pitch + (l - first) * width);
    e->place = first * width;
    evaluate(s->program, e, count);
    for (int64_t n = 0; n < s->program->count; n++)
        if (s->program->nodes[n].ring >= 0) {
            const int64_t kept = e->row % s->ring_rows * s->rings + s->program->nodes[n].ring;
            memcpy(ring + kept * e->length + e->place, e->results + n * e->pitch,
                   sizeof(float) * (size_t)count);
        }
    for (int i = 0; i < 2; i++) {
        const struct stream_queue *queue = e->queues[i];
        if (queue->writer.origin != OF_NOTHING)
            copy_values(e, &queue->writer, queue->written + e->row * e->length + e->place, count);
        if (queue->summand.origin != OF_NOTHING)
            copy_values(e, &queue->summand, rows + i * e->length + e->place, count);
    }
    if (s->program->output.origin == OF_NOTHING)
        return;
    struct values output;
    find_values(e, &s->program->output, &output);
    for (int64_t l = first; l < end; l++) {
        const int64_t y = (line + l) % s->height;
        if (y % s->stride == 0)
            store_line(s, output, (l - first) * width, (line + l) / s->height, y / s->stride);
    }
}

INLINE void stream_rows_inline(const struct stream *s, int64_t first, int64_t end, void *scratch) {
    const int64_t length = s->lines * s->width, together = s->block / s->width;
    const int64_t summands =
        (s->queue_0.summand.origin != OF_NOTHING) + (s->queue_1.summand.origin != OF_NOTHING);
    float *const inputs = scratch, *const results = inputs + STREAM_INPUTS * s->block,
                 *const rows = results + s->program->count * s->block,
                 *const ring = rows + summands * length;
    struct evaluation e = {.results = results,
                           .pitch = s->block,
                           .inputs = {inputs, inputs + s->block},
                           .queues = {&s->queue_0, &s->queue_1},
                           .ring = ring,
                           .ring_rows = s->ring_rows,
                           .rings = s->rings,
                           .length = length};
    /* With rows that read earlier ones, there is one unit. */
    if (s->ring_rows)
        end = s->rows;
    for (e.row = first; e.row < end; e.row++) {
        for (int64_t l = 0; l < s->lines; l += together)
            stream_lines(s, &e, l, least(l + together, s->lines), inputs, ring, rows);
        for (int i = 0; i < 2; i++)
            if (e.queues[i]->summand.origin != OF_NOTHING)
                e.queues[i]->sums[e.row] = s->has_maxima ? maximum_of(rows + i * length, length)
                                                         : sum_of_row(rows + i * length, length);
    }
}

#ifdef AVX512
WITH_AVX512_VNNI static void stream_bytes_avx512(const struct stream_program *p,
                                                 const int32_t *sums, int64_t count,
                                                 uint8_t *bytes) {
    stream_bytes_inline(p, sums, count, bytes);
}

WITH_AVX512_VNNI static void stream_rows_avx512(const struct stream *s, int64_t first, int64_t end,
                                                void *scratch) {
    stream_rows_inline(s, first, end, scratch);
}
#endif

IN_EACH_FORM(stream_bytes,
             (const struct stream_program *p, const int32_t *sums, int64_t count, uint8_t *bytes),
             (p, sums, count, bytes))
IN_EACH_FORM(stream_rows, (const struct stream *s, int64_t first, int64_t end, void *scratch),
             (s, first, end, scratch))

#endif
