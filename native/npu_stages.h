/* The stages of int8 in vectors of doubles, of CHANNELS channels each.
 *
 * A template: npu.c includes it for each width, with the form's words. V names an operation as the
 * processor's header does; besides there are
 *   nearest, towards_zero    whole numbers, ties to the even one,
 *   where_negative(v, w, s)  w where s has the sign, else v,
 *   load_sums, load_atom     as doubles, from int32 and from int8,
 *   store_rounded            as int32, ties to even,
 *   read_integers            whole numbers of the channels that a vector of sums holds, from doubles,
 *   read_halves              numbers of these channels, as `halve` deals them out,
 *   integers_of, bytes_of    the same number in every lane,
 *   load_integers, load_bytes, add_integers, flip   sums, from int32 and int8; with their sign turned,
 *   halve                    two vectors of doubles, SHIFTED more than the sums before they were flipped,
 *   low_words                the low halves of both,
 *   store_bytes              four vectors of int32 as int8, saturated and within limits.
 */
/* One stage's parameters for CHANNELS channels. */
struct FORM(stage_in) {
    DOUBLES add, multiply, up, down, lowest, highest;
    int multiply_first, only_negatives, shifts, is_split, has_limits;
};

WITH_FORM INLINE struct FORM(stage_in) FORM(read_stage)(const struct stage *s, int64_t channel) {
    struct FORM(stage_in) w;
    w.only_negatives = s->only_negatives != 0;
    w.multiply_first = s->multiply_first != 0;
    w.is_split = s->positive != s->negative;
    w.shifts = w.is_split || s->positive != 1;
    w.has_limits = s->lowest != -HUGE_VAL || s->highest != HUGE_VAL;
    w.add = V(loadu)(numbers(&s->add, channel));
    w.multiply = V(loadu)(numbers(&s->multiply, channel));
    w.up = V(set1)(s->positive);
    w.down = V(set1)(s->negative);
    w.lowest = V(set1)(s->lowest);
    w.highest = V(set1)(s->highest);
    return w;
}

WITH_FORM INLINE DOUBLES FORM(nearest_or_away)(DOUBLES v, int64_t away) {
    if (!away)
        return FORM(nearest)(v);
    const DOUBLES half = V(or)(V(and)(v, V(set1)(-0.0)), V(set1)(0.5));
    return FORM(towards_zero)(V(add)(v, half));
}

/* What `run_stage` does; a zero may take either side's factor. */
WITH_FORM INLINE DOUBLES FORM(run_stage)(const struct FORM(stage_in) * w, DOUBLES v) {
    if (!w->multiply_first)
        v = V(add)(v, w->add);
    v = w->only_negatives ? FORM(where_negative)(v, V(mul)(v, w->multiply), v)
                          : V(mul)(v, w->multiply);
    if (w->multiply_first)
        v = V(add)(v, w->add);
    if (w->is_split)
        v = V(mul)(v, FORM(where_negative)(w->up, w->down, v));
    else if (w->shifts)
        v = V(mul)(v, w->up);
    if (w->shifts)
        v = FORM(nearest)(v);
    if (w->has_limits)
        v = V(min)(V(max)(v, w->lowest), w->highest);
    return v;
}

WITH_FORM INLINE DOUBLES FORM(operate)(const struct dpu *d, DOUBLES v, const int8_t *atom) {
    DOUBLES e = FORM(load_atom)(atom);
    e = V(mul)(V(add)(e, V(set1)(d->operand_offset)), V(set1)(d->operand_scale));
    e = FORM(nearest_or_away)(e, d->operand_away);
    switch (d->operation) {
    case ADD: return V(add)(v, e);
    case SUBTRACT: return V(sub)(v, e);
    case MAX: return V(max)(v, e);
    case MIN: return V(min)(v, e);
    default: v = V(mul)(V(mul)(v, e), V(set1)(d->product)); return FORM(nearest)(v);
    }
}

/* All stages but a table for CHANNELS channels, without leaving the registers. */
WITH_FORM INLINE void FORM(run_stages)(const struct dpu *d, int64_t channel, int64_t count,
                                       const int32_t *sums, const int8_t *operand, int32_t *rounded,
                                       const int lanes) {
    const int has_bs = d->has_bs != 0, has_bn = d->has_bn != 0, has_limits = d->has_limits != 0;
    const int has_operation = d->operation != NONE;
    struct FORM(stage_in) bs = {0}, bn = {0};
    if (has_bs)
        bs = FORM(read_stage)(&d->bs, channel);
    if (has_bn)
        bn = FORM(read_stage)(&d->bn, channel);
    const DOUBLES scale = V(set1)(d->scale), offset = V(set1)(d->offset);
    const DOUBLES lowest = V(set1)(d->lowest), highest = V(set1)(d->highest);
    const DOUBLES least = V(set1)(-128), most = V(set1)(127);
    const int64_t away = d->output_away;
    for (int64_t i = 0; i < count * lanes; i += lanes) {
        DOUBLES v = FORM(load_sums)(sums + i);
        if (has_bs)
            v = FORM(run_stage)(&bs, v);
        if (has_bn)
            v = FORM(run_stage)(&bn, v);
        if (has_operation)
            v = FORM(operate)(d, v, operand + i);
        if (has_limits)
            v = V(min)(V(max)(v, lowest), highest);
        v = V(min)(V(max)(V(fmadd)(v, scale, offset), least), most);
        v = FORM(nearest_or_away)(v, away);
        FORM(store_rounded)(rounded + i, v);
    }
}

/* The same for what most tasks are, whose ties all go to even. Results fit into 30 bits. Where a leak
 * follows, values that aren't shifted may leave int32; in other ways none does. */
WITH_FORM INLINE void FORM(run_linear)(const struct dpu *d, int64_t channel, int64_t count,
                                       const int32_t *sums, const int8_t *operand, int32_t *rounded,
                                       const int lanes, const int follow) {
    const DOUBLES up = V(set1)(d->bs.positive), down = V(set1)(d->bs.negative);
    const DOUBLES scale = V(set1)(d->scale), offset = V(set1)(d->offset);
    const DOUBLES lowest = V(set1)(d->lowest), highest = V(set1)(d->highest);
    const DOUBLES least = V(set1)(INT32_MIN), most = V(set1)(INT32_MAX);
    DOUBLES m = V(loadu)(numbers(&d->bs.multiply, channel)), leak = scale, factor = scale,
            addend = scale;
    if (!(follow & SPLIT))
        m = V(mul)(m, up);
    if (follow & LEAK)
        leak = V(loadu)(numbers(&d->bn.multiply, channel));
    if (follow & SECOND) {
        const DOUBLES shift = V(set1)(d->bn.positive);
        factor = V(mul)(V(loadu)(numbers(&d->bn.multiply, channel)), shift);
        addend = V(mul)(V(loadu)(numbers(&d->bn.add, channel)), shift);
    }
    const DOUBLES a = V(mul)(V(loadu)(numbers(&d->bs.add, channel)), m);
    for (int64_t i = 0; i < count * lanes; i += lanes) {
        DOUBLES v = V(fmadd)(FORM(load_sums)(sums + i), m, a);
        if (follow & SPLIT)
            v = V(mul)(v, FORM(where_negative)(up, down, v));
        v = FORM(nearest)(v);
        if (follow & LEAK) {
            /* What leaves int32 does so as well after a whole number of times itself, or is zero. */
            v = FORM(where_negative)(v, V(mul)(v, leak), v);
            v = V(min)(V(max)(v, least), most);
        }
        if (follow & SECOND)
            v = FORM(nearest)(V(fmadd)(v, factor, addend));
        if (follow & ADDITION) {
            v = FORM(operate)(d, v, operand + i);
            v = V(min)(V(max)(v, lowest), highest);
        }
        if (!(follow & INDEX))
            v = V(fmadd)(v, scale, offset);
        FORM(store_rounded)(rounded + i, v);
    }
}

/* The same for a ReLU and one shift. */
WITH_FORM INLINE void FORM(run_positive)(const struct dpu *d, int64_t channel, int64_t count,
                                         const int32_t *sums, int32_t *rounded, const int lanes) {
    const DOUBLES scale = V(set1)(d->scale), offset = V(set1)(d->offset);
    const DOUBLES highest = V(set1)(d->bs.highest);
    const DOUBLES m = V(mul)(V(loadu)(numbers(&d->bs.multiply, channel)), V(set1)(d->bs.positive));
    const DOUBLES a = V(mul)(V(loadu)(numbers(&d->bs.add, channel)), m);
    for (int64_t i = 0; i < count * lanes; i += lanes) {
        DOUBLES v = FORM(nearest)(V(fmadd)(FORM(load_sums)(sums + i), m, a));
        v = V(min)(V(max)(v, V(setzero)()), highest);
        FORM(store_rounded)(rounded + i, V(fmadd)(v, scale, offset));
    }
}

WITH_FORM INLINE void FORM(finish_linear)(const struct dpu *d, int64_t channel, int64_t count,
                                          const int32_t *sums, const int8_t *operand,
                                          int32_t *rounded, const int lanes) {
#define FOLLOW(what)                                                                               \
    case what: FORM(run_linear)(d, channel, count, sums, operand, rounded, lanes, what); break
    switch (d->short_way.follow) {
        FOLLOW(NOTHING);
        FOLLOW(SPLIT | LEAK);
        FOLLOW(LEAK);
        FOLLOW(SECOND);
        FOLLOW(ADDITION);
        FOLLOW(INDEX);
        FOLLOW(INDEX | SECOND);
    }
#undef FOLLOW
}

/* The same where a double has room for a result above NEAREST: adding that rounds to the nearest whole
 * number, ties to the even one, and the double's low half is the number. Limits are kept afterwards: what
 * follows them only grows with what it gets.
 *
 * A vector of sums becomes two of doubles, of every other pair of lanes, by a high half put beside each sum:
 * that is SHIFTED more than the sum, whose sign is turned for it. The first product takes that off again. */
struct FORM(whole_channels) {
    INTEGERS add;
    DOUBLES multiply[2], nearest[2], leak[2];
};

WITH_FORM INLINE struct FORM(whole_channels)
    FORM(read_whole)(const struct dpu *d, int64_t channel, const int lanes, const int follow) {
    struct FORM(whole_channels) w;
    w.add = FORM(flip)(FORM(read_integers)(numbers(&d->bs.add, channel), lanes));
    FORM(read_halves)(numbers(&d->bs.multiply, channel), lanes, w.multiply);
    if (follow & LEAK)
        FORM(read_halves)(numbers(&d->bn.multiply, channel), lanes, w.leak);
    for (int h = 0; h < 2 && !(follow & SPLIT); h++) {
        w.multiply[h] = V(mul)(w.multiply[h], V(set1)(d->bs.positive));
        w.nearest[h] = V(fnmadd)(V(set1)(SHIFTED), w.multiply[h], V(set1)(NEAREST));
    }
    return w;
}

/* What is the same for all channels. */
struct FORM(whole_stages) {
    DOUBLES up, down, scale, end, operand_scale, operand_nearest;
    INTEGERS low, high, operand_add;
};

WITH_FORM INLINE struct FORM(whole_stages)
    FORM(read_stages)(const struct dpu *d, const int follow) {
    const double *limits = follow & ADDITION ? &d->lowest : &d->bs.lowest;
    const double kept = follow & LEAK ? 0 : NEAREST * d->scale;
    struct FORM(whole_stages) w;
    w.up = V(set1)(d->bs.positive);
    w.down = V(set1)(d->bs.negative);
    w.scale = V(set1)(d->scale);
    w.end = V(set1)(NEAREST - kept + d->offset);
    w.low = FORM(bytes_of)(to_output(d, limits[0]));
    w.high = FORM(bytes_of)(to_output(d, limits[1]));
    w.operand_scale = V(set1)(d->operand_scale);
    w.operand_nearest = V(fnmadd)(V(set1)(SHIFTED), w.operand_scale, V(set1)(NEAREST));
    w.operand_add = FORM(flip)(FORM(integers_of)((int32_t)d->operand_offset));
    return w;
}

/* Half of a vector of sums, and of operands. */
WITH_FORM INLINE DOUBLES FORM(run_half)(const struct FORM(whole_stages) * w,
                                        const struct FORM(whole_channels) * channels, DOUBLES v,
                                        DOUBLES operand, const int half, const int follow) {
    const DOUBLES nearest = V(set1)(NEAREST), m = channels->multiply[half];
    if (follow & SPLIT) {
        v = V(mul)(V(sub)(v, V(set1)(SHIFTED)), m);
        v = V(fmadd)(v, FORM(where_negative)(w->up, w->down, v), nearest);
    } else
        v = V(fmadd)(v, m, channels->nearest[half]);
    if (follow & LEAK) {
        /* What leaves int32 does so as well after a whole number of times itself, or is zero. */
        v = V(sub)(v, nearest);
        v = FORM(where_negative)(v, V(mul)(v, channels->leak[half]), v);
        v = V(min)(V(max)(v, V(set1)(INT32_MIN)), V(set1)(INT32_MAX));
    }
    if (follow & ADDITION)
        v = V(add)(v, V(sub)(V(fmadd)(operand, w->operand_scale, w->operand_nearest), nearest));
    return V(fmadd)(v, w->scale, w->end);
}

/* Four vectors of sums to bytes. */
WITH_FORM INLINE void FORM(run_four)(const struct FORM(whole_stages) * w,
                                     const struct FORM(whole_channels) * channels,
                                     const INTEGERS *sums, const int8_t *operand, int8_t *q,
                                     const int periods, const int follow) {
    INTEGERS results[4];
    for (int v = 0; v < 4; v++) {
        const struct FORM(whole_channels) *c = channels + v % periods;
        DOUBLES halves[2], operands[2] = {w->up, w->up};
        FORM(halve)(FORM(add_integers)(sums[v], c->add), halves);
        if (follow & ADDITION)
            FORM(halve)(
                FORM(add_integers)(FORM(load_bytes)(operand + v * 2 * CHANNELS), w->operand_add),
                operands);
        for (int h = 0; h < 2; h++)
            halves[h] = FORM(run_half)(w, c, halves[h], operands[h], h, follow);
        results[v] = FORM(low_words)(halves);
    }
    FORM(store_bytes)(q, results, w->low, w->high);
}

WITH_FORM INLINE void FORM(load_four)(const int32_t *sums, INTEGERS *four) {
    for (int v = 0; v < 4; v++)
        four[v] = FORM(load_integers)(sums + v * 2 * CHANNELS);
}

WITH_FORM INLINE void FORM(run_whole)(const struct dpu *d, int64_t channel, int64_t count,
                                      const int32_t *sums, const int8_t *operand, int8_t *q,
                                      const int lanes, const int follow) {
    enum { FOUR = 8 * CHANNELS };
    const int periods = lanes > 2 * CHANNELS ? lanes / (2 * CHANNELS) : 1;
    const struct FORM(whole_stages) w = FORM(read_stages)(d, follow);
    struct FORM(whole_channels) channels[2];
    for (int p = 0; p < periods; p++)
        channels[p] = FORM(read_whole)(d, channel + p * 2 * CHANNELS, lanes, follow);
    const int64_t all = count * lanes;
    INTEGERS four[4];
    int64_t i = 0;
    for (; i + FOUR <= all; i += FOUR) {
        FORM(load_four)(sums + i, four);
        FORM(run_four)(&w, channels, four, operand + i, q + i, periods, follow);
    }
    if (i == all)
        return;
    int32_t last_sums[FOUR] = {0};
    int8_t last_operands[FOUR] = {0}, last[FOUR];
    memcpy(last_sums, sums + i, (all - i) * sizeof *sums);
    if (follow & ADDITION)
        memcpy(last_operands, operand + i, all - i);
    FORM(load_four)(last_sums, four);
    FORM(run_four)(&w, channels, four, last_operands, last, periods, follow);
    memcpy(q + i, last, all - i);
}

WITH_FORM INLINE void FORM(finish_whole)(const struct dpu *d, int64_t channel, int64_t count,
                                         const int32_t *sums, const int8_t *operand, int8_t *q,
                                         const int lanes) {
#define FOLLOW(what)                                                                               \
    case what: FORM(run_whole)(d, channel, count, sums, operand, q, lanes, what); break
    switch (d->short_way.follow) {
        FOLLOW(NOTHING);
        FOLLOW(SPLIT | LEAK);
        FOLLOW(LEAK);
        FOLLOW(ADDITION);
    }
#undef FOLLOW
}

WITH_FORM INLINE void FORM(finish_atoms)(const struct dpu *d, int64_t s, int64_t first,
                                         int64_t count, const int32_t *sums, int8_t *q,
                                         const int lanes) {
    int32_t rounded[BLOCK * LANES + 32];
    int8_t operand[BLOCK * LANES];
    if (d->operation != NONE)
        load_operand(d, s, first, count, operand, lanes);
    if (d->short_way.is_whole) {
        FORM(finish_whole)(d, s * lanes, count, sums, operand, q, lanes);
        return;
    }
    for (int l = 0; l < lanes; l += CHANNELS) {
        const int64_t channel = s * lanes + l;
        if (d->short_way.is_positive)
            FORM(run_positive)(d, channel, count, sums + l, rounded + l, lanes);
        else if (d->short_way.is_linear)
            FORM(finish_linear)(d, channel, count, sums + l, operand + l, rounded + l, lanes);
        else
            FORM(run_stages)(d, channel, count, sums + l, operand + l, rounded + l, lanes);
    }
    if (d->short_way.results)
        take_results(d, rounded, count * lanes, q);
    else
        pack_avx2(rounded, count * lanes, q);
}
