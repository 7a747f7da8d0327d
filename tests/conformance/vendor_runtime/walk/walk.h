/* A walk through the RKNN C API that prints each answer: the same on any library.
 *
 *     walk SECTION NUMBERS MODEL ...
 *
 * A section is a function that makes calls, each with a label; it is walked with each model. What
 * is printed, beside whatever the library writes:
 *
 *     @model PATH
 *     @call NUMBER LABEL     before the call, so that one that ends the process is known
 *     @answer VALUE          after it
 *     @note TEXT             what else was seen after that call
 *     @end                   the section is over
 *
 * NUMBERS has commas between them: calls that are left out, for they ended an earlier walk.
 */
#ifndef WALK_H
#define WALK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"

#define MOST_TENSORS 16
#define LARGE (1u << 20)

/* The file of the walk. */
extern const char *model_path;
extern void *model;
extern uint32_t model_size;

/* Prints the label; whether the call is to be made. */
int announce(const char *format, ...) __attribute__((format(printf, 1, 2)));
void answer(long value);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CALL(expression, ...)                                                                      \
    do {                                                                                           \
        if (announce(__VA_ARGS__))                                                                 \
            answer((long)(expression));                                                            \
    } while (0)

/* ------------------------------------------------------------------------------- what is used */

void *cleared(size_t size);

/* A context of the model; where there is none, the section ends for this model. */
rknn_context opened(uint32_t flags);

rknn_input_output_num counts(rknn_context context);
rknn_tensor_attr attribute(rknn_context context, int query, uint32_t index);
uint32_t element_size(int type);

/* Zeros of float32 for all inputs, in the format that they report. */
int feed(rknn_context context);

/* Entries for all inputs, float32 zeros; for all outputs, none of them allocated. */
void fill_inputs(rknn_context context, rknn_input inputs[MOST_TENSORS]);
void fill_outputs(rknn_context context, rknn_output outputs[MOST_TENSORS]);

/* ------------------------------------------------------------------------------ what is told */

const char *type_name(int type);
const char *format_name(int format);
void note_attribute(const char *what, const rknn_tensor_attr *attribute);
void note_memory(const char *what, const rknn_tensor_mem *memory);
void note_sizes(const char *what, rknn_context context);
const char *presence(const void *pointer);
uint32_t hash(const void *bytes, size_t size);

/* --------------------------------------------------------------------------------- sections */

void walk_initialise(void);
void walk_parts(void);
void walk_flags(void);
void walk_queries(void);
void walk_query_indices(void);
void walk_attributes(void);
void walk_order(void);
void walk_release(void);
void walk_inputs(void);
void walk_outputs(void);
void walk_memory(void);
void walk_foreign_memory(void);
void walk_memory_ends(void);
void walk_binding(void);
void walk_binding_types(void);
void walk_zero_copy(void);
void walk_outputs_alone(void);
void walk_input_values(void);
void walk_output_values(void);
void walk_sequences(void);
void walk_places(void);
void walk_cores(void);
void walk_duplicates(void);
void walk_outside_memory(void);
void walk_internal_outside(void);
void walk_information_only(void);
void walk_runs(void);
void walk_profile(void);
void walk_shapes(void);
void walk_shapes_unset(void);
void walk_matmul_kinds(void);
void walk_matmul_memory(void);
void walk_matmul_handles(void);
void walk_destroyed(void);
void walk_no_handle(void);
void walk_wild_handle(void);

#endif
