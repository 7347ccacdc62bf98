/* y_0, y_1, ... = f(x_0, x_1, ...), a function of the caller's own, and the op that the caller has
 * described for its gradient: from dy_0, ... and what else that op asks for to dx_0, ... */
#include "ops/custom/custom.h"

#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "core/hash.h"
#include "core/utf8.h"
#include "graph/builder.h"
#include "graph/differentiate.h"

_Static_assert(AC_CUSTOM_INPUTS <= AC_MAX_INPUTS && AC_CUSTOM_OUTPUTS == AC_MAX_OUTPUTS,
               "the operands that the header promises");

/* ---- a copy of the description --------------------------------------------------------------- */

/* What follows the structs in the block. */
typedef struct room {
  unsigned char *next;
} room;

static size_t aligned(size_t bytes) {
  const size_t unit = _Alignof(max_align_t);
  return (bytes + unit - 1) / unit * unit;
}

static size_t text_bytes(const char *text) {
  return text ? aligned(strlen(text) + 1) : 0;
}

static size_t room_for(const ac_custom_desc *desc) {
  return aligned(sizeof(ac_custom)) + text_bytes(desc->name) + text_bytes(desc->opencl_source) +
         aligned(desc->constant_bytes);
}

static void *put(room *r, const void *from, size_t bytes) {
  if (!from) return NULL;
  void *to = r->next;
  memcpy(to, from, bytes);
  r->next += aligned(bytes);
  return to;
}

static ac_custom *copy_op(room *r, const ac_custom_desc *desc) {
  ac_custom *op = (ac_custom *)(void *)r->next;
  r->next += aligned(sizeof *op);
  *op = (ac_custom){.desc = *desc};
  op->desc.gradient = NULL;
  op->desc.name = put(r, desc->name, strlen(desc->name) + 1);
  op->desc.constants = put(r, desc->constant_bytes ? desc->constants : NULL, desc->constant_bytes);
  if (!desc->opencl_source) return op;
  op->desc.opencl_source = put(r, desc->opencl_source, strlen(desc->opencl_source) + 1);
  op->source_key = ac_hash_text(desc->opencl_source);
  return op;
}

static const ac_custom *copy_desc(ac_graph *graph, const ac_custom_desc *desc) {
  const size_t bytes = room_for(desc) + (desc->gradient ? room_for(desc->gradient) : 0);
  ac_block *block = ac_block_create(bytes);
  if (!block) return ac_graph_out_of_memory(graph);
  room r = {block->data};
  ac_custom *op = copy_op(&r, desc);
  if (desc->gradient) op->gradient = copy_op(&r, desc->gradient);
  return ac_graph_keep(graph, block) ? op : NULL;
}

/* ---- the builder ----------------------------------------------------------------------------- */

static int outputs_of(const ac_custom_desc *desc) {
  return desc->outputs ? desc->outputs : 1;
}

/* Why an op cannot be like this; NULL: it can. */
static const char *refuse_op(const ac_custom_desc *desc) {
  if (!desc->name || !*desc->name) return "it has no name";
  if (!ac_is_utf8(desc->name) || strlen(desc->name) > 64)
    return "its name is longer than 64 bytes, or not UTF-8";
  if (!desc->opencl_source != !desc->opencl)
    return "it has OpenCL source without a function that launches it, or the other way round";
  if (!desc->cpu && !desc->opencl) return "it has no function for the CPU, and none for OpenCL";
  if (desc->constant_bytes > AC_CUSTOM_CONSTANT_BYTES)
    return "it has more than 4096 constant bytes";
  if (desc->constant_bytes && !desc->constants) return "its constants are NULL";
  return NULL;
}

static const char *refuse_desc(const ac_custom_desc *desc, int inputs) {
  const char *why = refuse_op(desc);
  if (why) return why;
  if (desc->outputs < 0 || desc->outputs > AC_CUSTOM_OUTPUTS) return "it has not 1 to 4 outputs";
  if ((desc->gradient_takes | desc->constant_inputs) >> inputs)
    return "its masks of inputs have bits of inputs that it does not have";
  if (desc->gradient_takes_outputs >> outputs_of(desc))
    return "its mask of outputs has bits of outputs that it does not have";
  return NULL;
}

static bool has_gradient(const ac_custom_desc *desc, int input, ac_dtype dtype) {
  return dtype == AC_F32 && !(desc->constant_inputs >> input & 1);
}

/* The same of its gradient, which has operands for these. */
static const char *refuse_gradient(const ac_custom_desc *desc, ac_tensor *const *in, int count,
                                   const ac_tensor_info *out) {
  int inputs = 0, outputs = 0;
  const char *why = refuse_op(desc->gradient);
  if (why) return why;
  if (desc->gradient->gradient) return "it has a gradient itself, which nothing asks for";
  for (int j = 0; j < outputs_of(desc); j++)
    inputs += (out[j].dtype == AC_F32) + (int)(desc->gradient_takes_outputs >> j & 1);
  for (int i = 0; i < count; i++) {
    inputs += (int)(desc->gradient_takes >> i & 1);
    outputs += has_gradient(desc, i, in[i]->dtype);
  }
  if (inputs > AC_CUSTOM_INPUTS) return "it would take more than 8 inputs";
  if (outputs > AC_CUSTOM_OUTPUTS)
    return "it would yield more than 4 gradients; name inputs without one (constant_inputs)";
  return NULL;
}

static void find_shapes(const ac_custom_desc *desc, ac_tensor *const *in, int count,
                        ac_tensor_info out[AC_CUSTOM_OUTPUTS], const char **why) {
  ac_tensor_info of[AC_CUSTOM_INPUTS];
  for (int i = 0; i < count; i++) ac_tensor_get_info(in[i], &of[i]);
  for (int j = 0; j < AC_CUSTOM_OUTPUTS; j++) {
    out[j] = of[0];
    out[j].name = "";
    out[j].dtype = AC_F32;
  }
  *why = desc->shapes ? desc->shapes(of, count, out, desc->constants) : NULL;
}

/* Why an output cannot be like this; NULL: it can, and has this shape. */
static const char *refuse_output(const ac_custom_desc *desc, ac_tensor *const *in, int count,
                                 const ac_tensor_info *info, ac_shape *shape) {
  bool batched = false;
  for (int i = 0; i < count; i++) batched |= in[i]->shape.batched;
  if (info->dtype != AC_F32 && info->dtype != AC_I32) return "type other than f32 and i32";
  if (!ac_shape_parse(shape, info->rank, info->shape)) return "shape that is not valid";
  /* Each micro-batch would have another result. */
  if (batched && !shape->batched && !desc->whole_batch)
    return "shape without the batch, though an input has it; that needs whole_batch";
  return NULL;
}

static ac_custom_attributes attributes_of(const ac_custom *op, uint32_t stream) {
  ac_custom_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.op = op;
  attributes.stream = stream;
  return attributes;
}

/* How an operand of this dtype is stored. */
static char kind_of(const ac_custom *op, ac_dtype dtype) {
  return dtype == AC_I32 ? 'i' : op->desc.plan_storage ? 's' : 'f';
}

static ac_tensor *emit(ac_graph *graph, const ac_custom *op, ac_tensor *const *in, int count,
                       const ac_tensor_info *info, const ac_shape *shapes, ac_tensor **outputs) {
  ac_custom_attributes attributes = attributes_of(op, ++graph->streams);
  bool wanted = false;
  for (int i = 0; i < count; i++) {
    attributes.kinds.in[i] = kind_of(op, in[i]->dtype);
    wanted |= in[i]->requires_gradient && has_gradient(&op->desc, i, in[i]->dtype);
  }
  for (int j = 0; j < outputs_of(&op->desc); j++)
    attributes.kinds.out[j] = kind_of(op, info[j].dtype);
  const int node = ac_graph_append(graph, AC_OP_custom, &attributes, sizeof attributes, count, in);
  ac_tensor *first = NULL;
  for (int j = 0; j < outputs_of(&op->desc); j++) {
    ac_tensor *y = ac_graph_add_output(graph, node, AC_ROLE_ACTIVATION, info[j].dtype, &shapes[j]);
    if (!y) return NULL;
    y->requires_gradient = wanted && info[j].dtype == AC_F32;
    if (outputs) outputs[j] = y;
    if (j == 0) first = y;
  }
  return first;
}

ac_tensor *ac_custom_op(ac_graph *graph, ac_tensor *const *inputs, int count, ac_tensor **outputs,
                        const ac_custom_desc *desc) {
  const ac_custom_desc d = AC_DESCRIBED(ac_custom_desc, desc);
  for (int j = 0; outputs && j < outputs_of(&d) && j < AC_CUSTOM_OUTPUTS; j++) outputs[j] = NULL;
  if (!AC_GIVEN(graph)) return NULL;
  const int given = !inputs || count < 0 ? 0 : count < AC_CUSTOM_INPUTS ? count : AC_CUSTOM_INPUTS;
  const ac_builder builder = {"custom_op", given, {"inputs[] f32 or i32"}};
  if (count < 1 || count > AC_CUSTOM_INPUTS || !inputs)
    return ac_builder_fail(graph, &builder, inputs, "%d inputs%s; there must be 1 to %d", count,
                           inputs ? "" : " at NULL", AC_CUSTOM_INPUTS);
  if (!ac_builder_begin(graph, &builder, inputs)) return NULL;
  const char *why = refuse_desc(&d, count);
  const char *name = d.name && *d.name && ac_is_utf8(d.name) ? d.name : "the op";
  if (why) return ac_builder_fail(graph, &builder, inputs, "%.64s: %s", name, why);
  for (int i = 0; i < count; i++)
    if (inputs[i]->dtype != AC_F32 && inputs[i]->dtype != AC_I32)
      return ac_builder_fail(graph, &builder, inputs, NULL);
  ac_tensor_info info[AC_CUSTOM_OUTPUTS];
  ac_shape shapes[AC_CUSTOM_OUTPUTS];
  find_shapes(&d, inputs, count, info, &why);
  if (why) return ac_builder_fail(graph, &builder, inputs, "%s: %s", name, why);
  for (int j = 0; j < outputs_of(&d); j++) {
    why = refuse_output(&d, inputs, count, &info[j], &shapes[j]);
    if (why)
      return ac_builder_fail(graph, &builder, inputs, "%s: its function gives output %d a %s", name,
                             j, why);
  }
  why = d.gradient ? refuse_gradient(&d, inputs, count, info) : NULL;
  if (why) return ac_builder_fail(graph, &builder, inputs, "%s: its gradient: %s", name, why);
  const ac_custom *op = copy_desc(graph, &d);
  return op ? emit(graph, op, inputs, count, info, shapes, outputs) : NULL;
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* The gradient node's operands, in the order that the header promises. */
static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  const ac_custom_attributes *own = (const void *)node->attributes;
  const ac_custom_desc *desc = &own->op->desc;
  ac_graph *graph = d->graph;
  char text[128];
  if (!own->op->gradient)
    return ac_fail(
        AC_ERROR_UNSUPPORTED,
        "%s has no gradient; describe one (ac_custom_desc.gradient), or say which inputs "
        "need none",
        ac_node_text(text, sizeof text, graph, node));
  ac_custom_attributes attributes = attributes_of(own->op->gradient, own->stream);
  ac_tensor *in[AC_CUSTOM_INPUTS];
  int count = 0, target[AC_MAX_OUTPUTS], targets = 0;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (own->kinds.out[j] && own->kinds.out[j] != 'i') {
      attributes.kinds.in[count] = kind_of(attributes.op, AC_F32);
      in[count++] = ac_gradient_of(d, node->out[j]);
    }
  for (int i = 0; i < AC_CUSTOM_INPUTS; i++)
    if (desc->gradient_takes >> i & 1) {
      in[count] = ac_tensor_at(graph, node->in[i]);
      attributes.kinds.in[count] = kind_of(attributes.op, in[count]->dtype);
      count++;
    }
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (desc->gradient_takes_outputs >> j & 1) {
      in[count] = ac_tensor_at(graph, node->out[j]);
      attributes.kinds.in[count] = kind_of(attributes.op, in[count]->dtype);
      count++;
    }
  for (int i = 0; i < AC_CUSTOM_INPUTS && node->in[i] >= 0; i++)
    if (has_gradient(desc, i, ac_tensor_at(graph, node->in[i])->dtype)) {
      attributes.kinds.out[targets] = kind_of(attributes.op, AC_F32);
      target[targets++] = node->in[i];
    }
  return ac_gradient_emit(d, AC_OP_custom, &attributes, sizeof attributes, count, in, targets,
                          target);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static int operand_count(const char *kinds, int most) {
  int count = 0;
  while (count < most && kinds[count]) count++;
  return count;
}

void ac_custom_call_of(ac_custom_call *call, const ac_op_args *args) {
  const ac_custom_attributes *attributes = args->attributes;
  const ac_custom_desc *desc = &attributes->op->desc;
  const ac_run_state *run = args->run;
  memset(call, 0, sizeof *call);
  call->in_count = operand_count(attributes->kinds.in, AC_CUSTOM_INPUTS);
  call->out_count = operand_count(attributes->kinds.out, AC_MAX_OUTPUTS);
  for (int i = 0; i < call->in_count; i++) {
    const ac_operand *x = &args->in[i];
    ac_custom_input *to = &call->in[i];
    *to = (ac_custom_input){x->count ? x->data : NULL, x->dtype, x->rank, {0}, x->count};
    memcpy(to->shape, x->dim, sizeof to->shape);
  }
  for (int j = 0; j < call->out_count; j++) {
    const ac_operand *y = &args->out[j];
    ac_custom_output *to = &call->out[j];
    *to = (ac_custom_output){y->count ? y->data : NULL, y->dtype, y->rank, {0}, y->count};
    memcpy(to->shape, y->dim, sizeof to->shape);
  }
  call->workspace = args->workspace;
  call->workspace_bytes = args->workspace_bytes;
  call->constants = desc->constants;
  call->user = desc->user;
  call->stream = attributes->stream;
  call->threads = 1;
  if (!run) return;
  call->batch = run->batch;
  call->training = run->training;
  call->seed = run->seed;
  call->update = run->update;
  call->sample = run->sample;
}

uint64_t ac_custom_workspace(const ac_op_args *args) {
  ac_custom_call call;
  const ac_custom_desc *desc = &ac_custom_of(args)->desc;
  if (!desc->workspace) return 0;
  ac_custom_call_of(&call, args);
  return desc->workspace(&call);
}

ac_status ac_custom_result(const char *sentence) {
  return sentence ? ac_fail(AC_ERROR_STOPPED, "%s", sentence) : AC_OK;
}

void ac_custom_parallel(const ac_custom_call *call, int64_t count, int64_t work,
                        ac_custom_part part, void *context) {
  if (!AC_GIVEN(call, part) || count < 1) return;
  if (call->device) call->device->parallel(call->device, call, count, work, part, context);
  else part(call, 0, count, context);
}

void ac_custom_launch(const ac_custom_call *call, const ac_custom_launch_desc *desc) {
  const ac_custom_launch_desc d = AC_DESCRIBED(ac_custom_launch_desc, desc);
  if (AC_GIVEN(call) && call->device && call->device->launch)
    call->device->launch(call->device, &d);
}

void ac_custom_read(const ac_custom_call *call, int input, int64_t first, int64_t count,
                    float *to) {
  if (!AC_GIVEN(call) || input < 0 || input >= call->in_count || count < 1 || !AC_GIVEN(to)) return;
  const ac_custom_input *x = &call->in[input];
  const uint16_t *half = x->data;
  if (x->dtype == AC_F32) memcpy(to, (const float *)x->data + first, (size_t)count * sizeof *to);
  for (int64_t i = 0; i < count && x->dtype == AC_BF16; i++)
    to[i] = ac_bf16_to_float(half[first + i]);
  for (int64_t i = 0; i < count && x->dtype == AC_F16; i++)
    to[i] = ac_f16_to_float(half[first + i]);
}

/* What is flushed to zero leaves a trace (ac_run_state.mark_flushed). */
static uint16_t f16_of(float value, bool mark) {
  const uint32_t magnitude = ac_float_bits(value) & 0x7fffffffu;
  if (mark && magnitude <= 0x33000000u) return magnitude ? 0x8000u : 0;
  return ac_f16_from_float(value);
}

void ac_custom_write(const ac_custom_call *call, int output, int64_t first, int64_t count,
                     const float *from) {
  if (!AC_GIVEN(call) || output < 0 || output >= call->out_count || count < 1 || !AC_GIVEN(from))
    return;
  const ac_custom_output *y = &call->out[output];
  const bool mark = call->device && call->device->mark_flushed;
  uint16_t *half = y->data;
  if (y->dtype == AC_F32) memcpy((float *)y->data + first, from, (size_t)count * sizeof *from);
  for (int64_t i = 0; i < count && y->dtype == AC_BF16; i++)
    half[first + i] = ac_bf16_from_float(from[i]);
  for (int64_t i = 0; i < count && y->dtype == AC_F16; i++) half[first + i] = f16_of(from[i], mark);
}

/* ---- description ----------------------------------------------------------------------------- */

static double flops(const ac_op_args *args) {
  ac_custom_call call;
  const ac_custom_desc *desc = &ac_custom_of(args)->desc;
  if (!desc->flops) return 0;
  ac_custom_call_of(&call, args);
  return desc->flops(&call);
}

static bool couples(const void *attributes) {
  return ((const ac_custom_attributes *)attributes)->op->desc.whole_batch;
}

static const char *lacks(const void *attributes, bool on_host) {
  const ac_custom_desc *desc = &((const ac_custom_attributes *)attributes)->op->desc;
  if (on_host) return desc->cpu ? NULL : "it has no function for the CPU";
  return desc->opencl ? NULL : "it has no OpenCL source";
}

static const char *title(const void *attributes) {
  return ((const ac_custom_attributes *)attributes)->op->desc.name;
}

const ac_op_desc ac_op_desc_custom = {
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient,
    .flops = flops,
    .couples = couples,
    .lacks = lacks,
    .title = title,
    .sample = {{"n"}, {"n"}, &ac_custom_sampled},
};
