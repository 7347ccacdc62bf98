/* A pickle is a program for a stack machine: opcodes push values and make tuples and dicts of them.
 * What makes pickles dangerous, that they may name any function of Python and call it, is not here:
 * the names below are the only ones, and each is a kind of value here. Any other opcode or name
 * is refused by what it is.
 *
 *   collections.OrderedDict()                  a dict
 *   torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, ...)    a tensor
 *   torch._utils._rebuild_parameter(tensor, ...)                             the tensor
 *   torch.Size(tuple)                          the tuple
 *   a persistent id ("storage", type, key, device, elements)                 a storage
 *
 * Values are a few bytes each and are freed together; a pickle that would need more memory than any
 * file of tensors does is refused. */
#include "io/pickle.h"

#include "core/error.h"
#include "core/little_endian.h"
#include "core/quote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MEMORY = 256 << 20, PIECE_BYTES = 1 << 16, MOST_TEXT = 65535, MOST_WORD = 128 };

typedef struct ac_pickle_piece {
  struct ac_pickle_piece *next;
  size_t used, size;
  _Alignas(16) unsigned char bytes[];
} piece;

/* ---- memory and bytes ------------------------------------------------------------------------ */

static ac_status no_memory(const ac_pickle *p) {
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its description of tensors", p->file->path);
}

static ac_status damaged(const ac_pickle *p, const char *what) {
  return ac_fail(AC_ERROR_FORMAT, "%s: its pickle is damaged: %s", p->file->path, what);
}

static void *allocate(ac_pickle *p, size_t bytes) {
  bytes = (bytes + 15) & ~(size_t)15;
  if (bytes > MOST_MEMORY - p->used) return NULL;
  if (!p->pieces || p->pieces->size - p->pieces->used < bytes) {
    const size_t size = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;
    piece *made = malloc(sizeof *made + size);
    if (!made) return NULL;
    *made = (piece){.next = p->pieces, .size = size};
    p->pieces = made;
  }
  void *at = p->pieces->bytes + p->pieces->used;
  p->pieces->used += bytes;
  p->used += bytes;
  return at;
}

static ac_status take(ac_pickle *p, void *data, size_t bytes) {
  if ((int64_t)bytes > p->left) return damaged(p, "it ends too early");
  if (fread(data, 1, bytes, p->file->stream) != bytes)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", p->file->path,
                   ferror(p->file->stream) ? strerror(errno) : "it has become shorter");
  p->left -= (int64_t)bytes;
  return AC_OK;
}

static ac_status take_number(ac_pickle *p, int bytes, uint64_t *value) {
  unsigned char data[8];
  AC_TRY(take(p, data, (size_t)bytes));
  *value = ac_little_endian(data, (size_t)bytes);
  return AC_OK;
}

/* ---- lists of values ------------------------------------------------------------------------- */

/* What a list outgrows stays with the pieces: all of it is at most twice the list. */
static ac_status add(ac_pickle *p, ac_pickle_items *items, ac_pickle_value value) {
  if (items->count == items->capacity) {
    const size_t capacity = items->capacity ? 2 * items->capacity : 4;
    ac_pickle_value *grown = allocate(p, capacity * sizeof *grown);
    if (!grown) return no_memory(p);
    if (items->count) memcpy(grown, items->at, items->count * sizeof *grown);
    items->at = grown;
    items->capacity = capacity;
  }
  items->at[items->count++] = value;
  return AC_OK;
}

static ac_status push(ac_pickle *p, ac_pickle_value value) {
  return add(p, &p->stack, value);
}

static ac_status push_integer(ac_pickle *p, ac_pickle_kind kind, int64_t integer) {
  return push(p, (ac_pickle_value){.kind = kind, .integer = integer});
}

static ac_status pop(ac_pickle *p, ac_pickle_value *value) {
  if (!p->stack.count || p->stack.at[p->stack.count - 1].kind == AC_PICKLE_MARK)
    return damaged(p, "it takes a value that is not there");
  *value = p->stack.at[--p->stack.count];
  return AC_OK;
}

static ac_status top(const ac_pickle *p, ac_pickle_value **value) {
  if (!p->stack.count || p->stack.at[p->stack.count - 1].kind == AC_PICKLE_MARK)
    return damaged(p, "it takes a value that is not there");
  *value = &p->stack.at[p->stack.count - 1];
  return AC_OK;
}

/* The values above the last mark, which go from the stack. They stay where they are until the next
 * push. */
static ac_status pop_to_mark(ac_pickle *p, const ac_pickle_value **values, size_t *count) {
  size_t mark = p->stack.count;
  while (mark && p->stack.at[mark - 1].kind != AC_PICKLE_MARK) mark--;
  if (!mark) return damaged(p, "it lacks a mark");
  *values = p->stack.at + mark;
  *count = p->stack.count - mark;
  p->stack.count = mark - 1;
  return AC_OK;
}

static ac_status make(ac_pickle *p, ac_pickle_kind kind, const ac_pickle_value *values,
                      size_t count, ac_pickle_value *made) {
  ac_pickle_items *items = allocate(p, sizeof *items);
  if (!items) return no_memory(p);
  *items = (ac_pickle_items){.capacity = count, .count = count};
  if (count && !(items->at = allocate(p, count * sizeof *items->at))) return no_memory(p);
  if (count) memcpy(items->at, values, count * sizeof *values);
  *made = (ac_pickle_value){.kind = kind, .items = items};
  return AC_OK;
}

static ac_status push_made(ac_pickle *p, ac_pickle_kind kind, const ac_pickle_value *values,
                           size_t count) {
  ac_pickle_value made = {0};
  AC_TRY(make(p, kind, values, count, &made));
  return push(p, made);
}

/* ---- texts and names ------------------------------------------------------------------------- */

static ac_status push_text(ac_pickle *p, int length_bytes) {
  uint64_t length = 0;
  AC_TRY(take_number(p, length_bytes, &length));
  if (length > (uint64_t)p->left) return damaged(p, "it ends too early");
  if (length > MOST_TEXT) return damaged(p, "a text has more than 65,535 bytes");
  char *text = allocate(p, (size_t)length + 1);
  if (!text) return no_memory(p);
  AC_TRY(take(p, text, (size_t)length));
  text[length] = 0;
  if (strlen(text) != length) return damaged(p, "a text has a zero in it");
  return push(p, (ac_pickle_value){.kind = AC_PICKLE_TEXT, .text = text});
}

/* A line, without its end. */
static ac_status take_line(ac_pickle *p, char line[MOST_WORD]) {
  for (size_t i = 0; i < MOST_WORD; i++) {
    AC_TRY(take(p, line + i, 1));
    if (line[i] != '\n') continue;
    line[i] = 0;
    return AC_OK;
  }
  return damaged(p, "a name is too long");
}

static const char *const known_names[] = {
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor_v2",
    "torch.Size",
    "torch._utils._rebuild_parameter",
    "torch.FloatStorage",
    "torch.DoubleStorage",
    "torch.HalfStorage",
    "torch.BFloat16Storage",
    "torch.LongStorage",
    "torch.IntStorage",
    "torch.ShortStorage",
    "torch.CharStorage",
    "torch.ByteStorage",
    "torch.BoolStorage",
};

static ac_status push_global(ac_pickle *p, const char *module, const char *name) {
  char full[2 * MOST_WORD + 1];
  snprintf(full, sizeof full, "%s.%s", module, name);
  for (size_t i = 0; i < sizeof known_names / sizeof *known_names; i++)
    if (!strcmp(full, known_names[i]))
      return push(p, (ac_pickle_value){.kind = AC_PICKLE_GLOBAL, .text = known_names[i]});
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "%s: its pickle names %s, which tensors do not need; nothing of it is run. Save "
                 "the weights alone: torch.save(model.state_dict(), FILE)",
                 p->file->path, ac_quote(full).text);
}

static ac_status push_named_global(ac_pickle *p) {
  char module[MOST_WORD], name[MOST_WORD];
  AC_TRY(take_line(p, module));
  AC_TRY(take_line(p, name));
  return push_global(p, module, name);
}

static ac_status push_stacked_global(ac_pickle *p) {
  ac_pickle_value name = {0}, module = {0};
  AC_TRY(pop(p, &name));
  AC_TRY(pop(p, &module));
  if (name.kind != AC_PICKLE_TEXT || module.kind != AC_PICKLE_TEXT ||
      strlen(name.text) >= MOST_WORD || strlen(module.text) >= MOST_WORD)
    return damaged(p, "a name is not a text");
  return push_global(p, module.text, name.text);
}

/* ---- objects --------------------------------------------------------------------------------- */

static bool is_global(const ac_pickle_value *value, const char *name) {
  return value->kind == AC_PICKLE_GLOBAL && !strcmp(value->text, name);
}

static ac_status push_tensor(ac_pickle *p, const ac_pickle_items *given) {
  static const ac_pickle_kind kinds[] = {AC_PICKLE_STORAGE, AC_PICKLE_INTEGER, AC_PICKLE_TUPLE,
                                         AC_PICKLE_TUPLE};
  if (given->count < 4) return damaged(p, "a tensor lacks its shape");
  for (int i = 0; i < 4; i++)
    if (given->at[i].kind != kinds[i]) return damaged(p, "a tensor is not made of a storage");
  return push_made(p, AC_PICKLE_TENSOR, given->at, 4);
}

/* A function that is called with a tuple. */
static ac_status reduce(ac_pickle *p) {
  ac_pickle_value given = {0}, called = {0};
  AC_TRY(pop(p, &given));
  AC_TRY(pop(p, &called));
  if (given.kind != AC_PICKLE_TUPLE || called.kind != AC_PICKLE_GLOBAL)
    return damaged(p, "it calls what is not a function");
  const ac_pickle_items *items = given.items;
  if (is_global(&called, "torch._utils._rebuild_tensor_v2")) return push_tensor(p, items);
  if (is_global(&called, "collections.OrderedDict") && !items->count)
    return push_made(p, AC_PICKLE_DICT, NULL, 0);
  if (is_global(&called, "torch._utils._rebuild_parameter") && items->count &&
      items->at[0].kind == AC_PICKLE_TENSOR)
    return push(p, items->at[0]);
  if (is_global(&called, "torch.Size") && items->count == 1 && items->at[0].kind == AC_PICKLE_TUPLE)
    return push(p, items->at[0]);
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s: its pickle calls %s in a way that is not known",
                 p->file->path, called.text);
}

static ac_status new_storage(ac_pickle *p, const char *key, const char *type, int64_t elements) {
  ac_pickle_storage *storages = p->storages;
  if (p->storage_count == p->storage_capacity) {
    const size_t capacity = p->storage_capacity ? 2 * p->storage_capacity : 64;
    storages = realloc(storages, capacity * sizeof *storages);
    if (!storages) return no_memory(p);
    p->storages = storages;
    p->storage_capacity = capacity;
  }
  if (json_object_set_new(p->by_key, key, json_integer((json_int_t)p->storage_count)) != 0)
    return damaged(p, "the key of a storage is not UTF-8");
  storages[p->storage_count++] = (ac_pickle_storage){key, type, elements};
  return AC_OK;
}

/* ("storage", type, key, device, elements), and None in older files. */
static ac_status take_storage(ac_pickle *p) {
  ac_pickle_value id = {0};
  AC_TRY(pop(p, &id));
  const ac_pickle_value *at = id.kind == AC_PICKLE_TUPLE ? id.items->at : NULL;
  const size_t count = at ? id.items->count : 0;
  if ((count != 5 && (count != 6 || at[5].kind != AC_PICKLE_NONE)) ||
      at[0].kind != AC_PICKLE_TEXT || strcmp(at[0].text, "storage") != 0 ||
      at[1].kind != AC_PICKLE_GLOBAL || !strstr(at[1].text, "Storage") ||
      at[2].kind != AC_PICKLE_TEXT || at[4].kind != AC_PICKLE_INTEGER || at[4].integer < 0)
    return damaged(p, "it refers to what is not a storage");
  const json_t *known = json_object_get(p->by_key, at[2].text);
  const size_t index = known ? (size_t)json_integer_value(known) : p->storage_count;
  if (!known) AC_TRY(new_storage(p, at[2].text, at[1].text, at[4].integer));
  const ac_pickle_storage *storage = &p->storages[index];
  if (storage->type != at[1].text || storage->elements != at[4].integer)
    return damaged(p, "it describes a storage in two ways");
  return push_integer(p, AC_PICKLE_STORAGE, (int64_t)index);
}

/* ---- opcodes --------------------------------------------------------------------------------- */

static ac_status put(ac_pickle *p, uint64_t index) {
  ac_pickle_value *value = NULL;
  AC_TRY(top(p, &value));
  if (index > p->memo.count + 255) return damaged(p, "it remembers a value out of turn");
  while (p->memo.count <= index)
    AC_TRY(add(p, &p->memo, (ac_pickle_value){.kind = AC_PICKLE_MARK}));
  p->memo.at[index] = *value;
  return AC_OK;
}

static ac_status get(ac_pickle *p, uint64_t index) {
  if (index >= p->memo.count || p->memo.at[index].kind == AC_PICKLE_MARK)
    return damaged(p, "it takes a value that is not there");
  return push(p, p->memo.at[index]);
}

static ac_status set_items(ac_pickle *p, ac_pickle_kind kind, const ac_pickle_value *values,
                           size_t count) {
  ac_pickle_value *into = NULL;
  AC_TRY(top(p, &into));
  if (into->kind != kind || (kind == AC_PICKLE_DICT && count % 2))
    return damaged(p, "it adds values to what cannot have them");
  ac_pickle_items *items = into->items;
  for (size_t i = 0; i < count; i++) AC_TRY(add(p, items, values[i]));
  return AC_OK;
}

/* The values are above those that they are added to, and nothing is pushed in between. */
static ac_status set_last(ac_pickle *p, ac_pickle_kind kind, size_t count) {
  ac_pickle_value values[2] = {{0}};
  for (size_t i = count; i > 0; i--) AC_TRY(pop(p, &values[i - 1]));
  return set_items(p, kind, values, count);
}

static ac_status set_marked(ac_pickle *p, ac_pickle_kind kind) {
  const ac_pickle_value *values = NULL;
  size_t count = 0;
  AC_TRY(pop_to_mark(p, &values, &count));
  return set_items(p, kind, values, count);
}

static ac_status push_tuple(ac_pickle *p, size_t count) {
  ac_pickle_value values[3] = {{0}};
  for (size_t i = count; i > 0; i--) AC_TRY(pop(p, &values[i - 1]));
  return push_made(p, AC_PICKLE_TUPLE, values, count);
}

static ac_status push_marked_tuple(ac_pickle *p) {
  const ac_pickle_value *values = NULL;
  ac_pickle_value made = {0};
  size_t count = 0;
  AC_TRY(pop_to_mark(p, &values, &count));
  AC_TRY(make(p, AC_PICKLE_TUPLE, values, count, &made));
  return push(p, made);
}

/* Attributes of an OrderedDict (what PyTorch calls _metadata) are left out. */
static ac_status build(ac_pickle *p) {
  ac_pickle_value attributes = {0}, *object = NULL;
  AC_TRY(pop(p, &attributes));
  AC_TRY(top(p, &object));
  if (object->kind == AC_PICKLE_DICT && attributes.kind == AC_PICKLE_DICT) return AC_OK;
  return damaged(p, "it sets attributes of what has none");
}

/* Little-endian, in two's complement. One beyond 64 bits is a number of another kind: the largest.
 */
static ac_status push_long(ac_pickle *p) {
  uint64_t length;
  unsigned char data[255];
  AC_TRY(take_number(p, 1, &length));
  AC_TRY(take(p, data, (size_t)length));
  uint64_t bits = ac_little_endian(data, length < 8 ? (size_t)length : 8);
  if (length && length < 8 && data[length - 1] & 0x80) bits |= ~(uint64_t)0 << 8 * length;
  return push_integer(p, AC_PICKLE_INTEGER, length > 8 ? INT64_MAX : (int64_t)bits);
}

static ac_status push_real(ac_pickle *p) {
  unsigned char data[8];
  uint64_t bits = 0;
  double real;
  AC_TRY(take(p, data, sizeof data));
  for (int i = 0; i < 8; i++) bits = bits << 8 | data[i];
  memcpy(&real, &bits, sizeof real);
  return push(p, (ac_pickle_value){.kind = AC_PICKLE_REAL, .real = real});
}

static ac_status push_bits(ac_pickle *p, int bytes) {
  uint64_t bits = 0;
  AC_TRY(take_number(p, bytes, &bits));
  return push_integer(p, AC_PICKLE_INTEGER, bytes == 4 ? (int32_t)(uint32_t)bits : (int64_t)bits);
}

/* With a number after it. */
static ac_status with_index(ac_pickle *p, int bytes, ac_status (*run)(ac_pickle *, uint64_t)) {
  uint64_t index = 0;
  AC_TRY(take_number(p, bytes, &index));
  return run(p, index);
}

static ac_status begin(ac_pickle *p, uint64_t protocol) {
  if (protocol >= 2 && protocol <= 5) return AC_OK;
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s: its pickle has protocol %" PRIu64 ", not 2 to 5",
                 p->file->path, protocol);
}

/* A frame is only a hint how to read the file. */
static ac_status ignore(ac_pickle *p, uint64_t bytes) {
  (void)p, (void)bytes;
  return AC_OK;
}

static ac_status run(ac_pickle *p, unsigned char opcode) {
  switch (opcode) {
  case 0x80: /* PROTO */
    return with_index(p, 1, begin);
  case 0x95: /* FRAME */
    return with_index(p, 8, ignore);
  case '(': /* MARK */
    return push(p, (ac_pickle_value){.kind = AC_PICKLE_MARK});
  case 'N': /* NONE */
    return push(p, (ac_pickle_value){.kind = AC_PICKLE_NONE});
  case 0x88: /* NEWTRUE */
  case 0x89: /* NEWFALSE */
    return push_integer(p, AC_PICKLE_BOOLEAN, opcode == 0x88);
  case 'J': /* BININT */
    return push_bits(p, 4);
  case 'K': /* BININT1 */
    return push_bits(p, 1);
  case 'M': /* BININT2 */
    return push_bits(p, 2);
  case 0x8a: /* LONG1 */
    return push_long(p);
  case 'G': /* BINFLOAT */
    return push_real(p);
  case 'X': /* BINUNICODE */
  case 'T': /* BINSTRING */
    return push_text(p, 4);
  case 'U':  /* SHORT_BINSTRING */
  case 0x8c: /* SHORT_BINUNICODE */
    return push_text(p, 1);
  case ')': /* EMPTY_TUPLE */
    return push_tuple(p, 0);
  case 0x85: /* TUPLE1 */
  case 0x86: /* TUPLE2 */
  case 0x87: /* TUPLE3 */
    return push_tuple(p, (size_t)opcode - 0x84);
  case 't': /* TUPLE */
    return push_marked_tuple(p);
  case ']': /* EMPTY_LIST */
    return push_made(p, AC_PICKLE_LIST, NULL, 0);
  case '}': /* EMPTY_DICT */
    return push_made(p, AC_PICKLE_DICT, NULL, 0);
  case 'a': /* APPEND */
    return set_last(p, AC_PICKLE_LIST, 1);
  case 'e': /* APPENDS */
    return set_marked(p, AC_PICKLE_LIST);
  case 's': /* SETITEM */
    return set_last(p, AC_PICKLE_DICT, 2);
  case 'u': /* SETITEMS */
    return set_marked(p, AC_PICKLE_DICT);
  case 'q': /* BINPUT */
    return with_index(p, 1, put);
  case 'r': /* LONG_BINPUT */
    return with_index(p, 4, put);
  case 0x94: /* MEMOIZE */
    return put(p, p->memo.count);
  case 'h': /* BINGET */
    return with_index(p, 1, get);
  case 'j': /* LONG_BINGET */
    return with_index(p, 4, get);
  case 'c': /* GLOBAL */
    return push_named_global(p);
  case 0x93: /* STACK_GLOBAL */
    return push_stacked_global(p);
  case 'R': /* REDUCE */
    return reduce(p);
  case 'b': /* BUILD */
    return build(p);
  case 'Q': /* BINPERSID */
    return take_storage(p);
  default:
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s: its pickle has the opcode 0x%02x, which no file of tensors needs",
                   p->file->path, opcode);
  }
}

ac_status ac_pickle_read(ac_pickle *pickle, ac_model_file *file, int64_t most_bytes) {
  unsigned char opcode;
  *pickle = (ac_pickle){.file = file, .left = most_bytes, .by_key = json_object()};
  if (!pickle->by_key) return no_memory(pickle);
  for (;;) {
    AC_TRY(take(pickle, &opcode, 1));
    if (opcode == '.') return pop(pickle, &pickle->root); /* STOP */
    AC_TRY(run(pickle, opcode));
  }
}

void ac_pickle_release(ac_pickle *pickle) {
  while (pickle->pieces) {
    piece *next = pickle->pieces->next;
    free(pickle->pieces);
    pickle->pieces = next;
  }
  free(pickle->storages);
  json_decref(pickle->by_key);
}

const ac_pickle_value *ac_pickle_get(const ac_pickle_value *dict, const char *key) {
  if (dict->kind != AC_PICKLE_DICT) return NULL;
  const ac_pickle_items *items = dict->items;
  for (size_t i = 0; i + 1 < items->count; i += 2)
    if (items->at[i].kind == AC_PICKLE_TEXT && !strcmp(items->at[i].text, key))
      return &items->at[i + 1];
  return NULL;
}
