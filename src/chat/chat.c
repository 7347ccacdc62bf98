/* Reads documents, and makes tokens of them once. */
#include "chat/chat.h"

#include "chat/encode.h"
#include "chat/reader.h"
#include "chat/record.h"
#include "core/format.h"
#include "core/hash.h"
#include "core/platform/files.h"
#include "core/platform/folders.h"
#include "core/platform/memory.h"
#include "data/byte_file.h"
#include "text/room.h"

/* What reading needs besides what it fills. */
typedef struct source {
  ac_chat *chat;
  ac_chat_render_desc render;
  bool has_end;
  uint32_t end; /* follows texts that are not conversations */
} source;

/* ---- documents ------------------------------------------------------------------------------- */

/* Larger growth is asked for beforehand: the system would end the program instead of refusing. */
static ac_status room_for_tokens(ac_chat *chat, size_t more, const char *path) {
  enum { SMALL = 1 << 24 };
  const size_t needed = chat->token_count + more;
  if (needed <= chat->token_capacity) return AC_OK;
  size_t wanted = chat->token_capacity + chat->token_capacity / 2;
  if (wanted < needed) wanted = needed;
  const uint64_t left = ac_memory_left(), grown = (wanted - chat->token_count) * sizeof(uint32_t);
  if (wanted > SMALL && grown > left) {
    char text[32];
    return ac_fail(AC_ERROR_MEMORY, "%s is too large: this machine has %s of memory left for data",
                   path, ac_format_bytes(text, sizeof text, left));
  }
  return AC_ROOM(chat->tokens, chat->token_capacity, needed);
}

static void count_length(ac_chat_info *info, size_t count) {
  int bin = 0;
  while (bin < AC_CHAT_LENGTHS - 1 && count >> (bin + 1)) bin++;
  if (count) info->lengths[bin]++;
  if ((int64_t)count > info->longest) info->longest = (int64_t)count;
}

static ac_status add_document(ac_chat *chat, const ac_chat_entry *entry, const uint32_t *ids,
                              const bool *learned) {
  AC_TRY(room_for_tokens(chat, entry->count + 1, chat->files[entry->file]));
  AC_TRY(AC_ROOM(chat->entries, chat->entry_capacity, chat->entry_count + 1));
  uint32_t *to = chat->tokens + chat->token_count;
  ac_chat_entry *made = &chat->entries[chat->entry_count++];
  *made = *entry;
  made->begin = chat->token_count;
  made->hash = ac_hash(AC_HASH_BEGIN, ids, entry->count * sizeof *ids);
  for (size_t i = 0; i < entry->count; i++) to[i] = ids[i] | (learned[i] ? AC_CHAT_LEARNED : 0);
  chat->token_count += entry->count;
  chat->info.documents++;
  count_length(&chat->info, entry->count);
  return AC_OK;
}

/* Appends the token that ends a text, unless it is there. */
static ac_status add_end(const source *s, ac_encoding *encoding, bool **learned) {
  const size_t count = encoding->count;
  if (!s->has_end || (count && encoding->ids[count - 1] == s->end)) return AC_OK;
  uint32_t *ids = realloc(encoding->ids, (count + 1) * sizeof *ids);
  if (ids) encoding->ids = ids;
  bool *marks = ids ? realloc(*learned, (count + 1) * sizeof *marks) : NULL;
  if (!marks) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for %zu tokens", count);
  *learned = marks;
  ids[count] = s->end;
  marks[count] = true;
  encoding->count++;
  return AC_OK;
}

/* From the file read last. */
static ac_status add_record(source *s, const ac_chat_record *record, int64_t line) {
  ac_encoding encoding;
  bool *learned = NULL;
  size_t named = 0;
  ac_status status = ac_chat_encode_text(s->chat->desc.tokenizer, &record->text, !record->whole,
                                         &encoding, &learned, &named);
  if (status == AC_OK && !record->whole) status = add_end(s, &encoding, &learned);
  if (status == AC_OK) {
    const ac_chat_entry entry = {.line = line,
                                 .count = (uint32_t)encoding.count,
                                 .file = (uint32_t)s->chat->file_count - 1,
                                 .conversation = record->conversation};
    status = add_document(s->chat, &entry, encoding.ids, learned);
    s->chat->info.named += named > 0;
    s->chat->info.replaced += (int64_t)encoding.replaced;
  }
  ac_encoding_free(&encoding);
  free(learned);
  return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

static ac_status add_object(source *s, const json_t *json, int64_t line) {
  ac_chat_record record;
  AC_TRY(ac_chat_record_read(&record, json, s->chat->desc.chat_template, &s->render));
  const ac_status status = add_record(s, &record, line);
  ac_chat_text_free(&record.text);
  return status;
}

/* A pair stays together: both have the same hash. */
static ac_status add_pair(source *s, const json_t *json, int64_t line) {
  ac_chat_record records[2];
  AC_TRY(ac_chat_record_read_pair(records, json, s->chat->desc.chat_template, &s->render));
  ac_status status = add_record(s, &records[0], line);
  if (status == AC_OK) status = add_record(s, &records[1], line);
  if (status == AC_OK) {
    ac_chat_entry *pair = &s->chat->entries[s->chat->entry_count - 2];
    pair[0].hash = pair[1].hash = ac_hash(pair[0].hash, &pair[1].hash, sizeof pair[1].hash);
  }
  for (int i = 0; i < 2; i++) ac_chat_text_free(&records[i].text);
  return status;
}

static ac_status read_objects(source *s, ac_chat_reader *reader, const char *path) {
  for (;;) {
    json_t *json;
    AC_TRY(ac_chat_reader_next(reader, &json));
    if (!json) return AC_OK;
    const int64_t line = ac_chat_reader_line(reader);
    const ac_status status = (s->chat->desc.preferences ? add_pair : add_object)(s, json, line);
    json_decref(json);
    if (status != AC_OK)
      return ac_fail_prefix(status, "%s: %s %lld", path, ac_chat_reader_unit(reader),
                            (long long)line);
  }
}

static ac_status read_json(source *s, const char *path) {
  ac_chat_reader *reader;
  AC_TRY(ac_chat_reader_open(&reader, path));
  const ac_status status = read_objects(s, reader, path);
  ac_chat_reader_close(reader);
  return status;
}

static ac_status check_text(const char *path, const ac_bytes *bytes) {
  const char *name = NULL;
  if (!ac_format_is_binary(bytes->data, bytes->count)) return AC_OK;
  ac_format_of(bytes->data, bytes->count, bytes->count, &name);
  return ac_fail(AC_ERROR_FORMAT, "%s is %s, not text", path, name ? name : "binary data");
}

static ac_status read_text(source *s, const char *path) {
  ac_byte_file *opened;
  ac_bytes bytes = {0};
  if (s->chat->desc.preferences)
    return ac_fail(AC_ERROR_FORMAT, "%s is text, which has no preferences", path);
  AC_TRY(ac_byte_file_open(&opened, path, AC_UNZIP));
  /* One byte more than a tokenizer takes, which says so. */
  ac_status status = ac_byte_file_append(opened, &bytes, (uint64_t)INT32_MAX + 1);
  ac_byte_file_close(opened);
  if (status == AC_OK) status = check_text(path, &bytes);
  if (status == AC_OK && bytes.count) {
    ac_chat_span span = {0, bytes.count, true, true};
    const ac_chat_record record = {.text = {(char *)bytes.data, bytes.count, &span, 1}};
    status = add_record(s, &record, 0);
    if (status != AC_OK) status = ac_fail_prefix(status, "%s", path);
  }
  free(bytes.data);
  return status;
}

static ac_status add_file(ac_chat *chat, const char *path) {
  AC_TRY(AC_ROOM(chat->files, chat->file_capacity, chat->file_count + 1));
  char *copy = malloc(strlen(path) + 1);
  if (!copy) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for a path");
  chat->files[chat->file_count++] = strcpy(copy, path);
  chat->info.files++;
  return AC_OK;
}

static ac_status read_file(source *s, const char *path, bool json) {
  AC_TRY(add_file(s->chat, path));
  return json ? read_json(s, path) : read_text(s, path);
}

/* ---- names of files -------------------------------------------------------------------------- */

static bool ends_in(const char *path, size_t bytes, const char *ending) {
  const size_t length = strlen(ending);
  return bytes >= length && !memcmp(path + bytes - length, ending, length);
}

static bool has_ending(const char *path, const char *const *endings, size_t count) {
  size_t bytes = strlen(path);
  if (ends_in(path, bytes, ".gz")) bytes -= 3;
  for (size_t i = 0; i < count; i++)
    if (ends_in(path, bytes, endings[i])) return true;
  return false;
}

static bool is_json_name(const char *path) {
  static const char *const endings[] = {".jsonl", ".ndjson", ".json"};
  return has_ending(path, endings, sizeof endings / sizeof *endings);
}

static bool is_text_name(const char *path) {
  static const char *const endings[] = {".txt", ".md", ".markdown", ".rst", ".text"};
  return has_ending(path, endings, sizeof endings / sizeof *endings);
}

static ac_status read_folder(source *s, const char *path) {
  ac_paths paths;
  bool json = false;
  AC_TRY(ac_paths_list(&paths, path, &(ac_path_choice){0}));
  ac_status status = AC_OK;
  for (size_t i = 0; i < paths.count; i++) json = json || is_json_name(paths.path[i]);
  for (size_t i = 0; i < paths.count && status == AC_OK; i++) {
    const char *one = paths.path[i];
    if (json ? is_json_name(one) : is_text_name(one)) status = read_file(s, one, json);
    else s->chat->info.files_skipped++;
  }
  if (status == AC_OK && !s->chat->file_count)
    status = ac_fail(AC_ERROR_FORMAT,
                     "%s has no files of JSON (.jsonl, .ndjson, .json) or text "
                     "(.txt, .md, .markdown, .rst, .text)",
                     path);
  ac_paths_free(&paths);
  return status;
}

static ac_status read_path(source *s, const char *path) {
  bool json = is_json_name(path);
  if (ac_is_folder(path)) return read_folder(s, path);
  if (!json && !is_text_name(path)) AC_TRY(ac_chat_reader_is_json(path, &json));
  return read_file(s, path, json);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static ac_status check_desc(const ac_chat_desc *desc) {
  if (!desc->tokenizer) return ac_fail(AC_ERROR_ARGUMENT, "chat: the tokenizer is NULL");
  if (desc->context < 1 || desc->context > 1 << 24)
    return ac_fail(AC_ERROR_ARGUMENT, "chat: a context of %lld; it must be 1 to 16777216",
                   (long long)desc->context);
  if (!(desc->validation >= 0 && desc->validation < 1))
    return ac_fail(AC_ERROR_ARGUMENT, "chat: a share of %g for validation; it must be in [0, 1)",
                   desc->validation);
  return AC_OK;
}

static void find_end(source *s, const ac_chat_desc *desc) {
  s->has_end = desc->end && ac_tokenizer_find(desc->tokenizer, desc->end, &s->end);
}

static ac_status read_all(ac_chat *chat, const char *path, const ac_chat_desc *desc) {
  source s = {
      .chat = chat,
      .render = {.learn = desc->learn, .begin = desc->begin, .end = desc->end, .date = desc->date}};
  find_end(&s, desc);
  AC_TRY(read_path(&s, path));
  if (!chat->entry_count) return ac_fail(AC_ERROR_FORMAT, "%s has no documents", path);
  chat->desc.begin = chat->desc.end = chat->desc.date = NULL;
  const ac_status status = ac_chat_divide(chat);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "%s", path);
}

ac_status ac_chat_open(ac_chat **chat, const char *path, const ac_chat_desc *desc) {
  AC_CREATES(chat);
  AC_REQUIRE(path, desc);
  AC_TRY(check_desc(desc));
  ac_chat *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for a description");
  made->desc = *desc;
  made->vocabulary = ac_tokenizer_vocabulary(desc->tokenizer);
  const ac_status status = read_all(made, path, desc);
  if (status == AC_OK) *chat = made;
  else ac_chat_free(made);
  return status;
}

void ac_chat_free(ac_chat *chat) {
  if (!chat) return;
  for (size_t i = 0; i < chat->file_count; i++) free(chat->files[i]);
  for (int side = 0; side < 2; side++) {
    free(chat->sides[side].pieces);
    free(chat->sides[side].first);
  }
  free(chat->files);
  free(chat->entries);
  free(chat->tokens);
  free(chat);
}

void ac_chat_get_info(const ac_chat *chat, ac_chat_info *info) {
  if (AC_GIVEN(chat, info)) *info = chat->info;
}

/* ---- documents that are shown ---------------------------------------------------------------- */

static ac_status check_index(const ac_chat *chat, int64_t index) {
  if (index >= 0 && index < (int64_t)chat->entry_count) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "chat: there is no document %lld among %zu", (long long)index,
                 chat->entry_count);
}

ac_status ac_chat_get_document(const ac_chat *chat, int64_t index, ac_chat_document *document) {
  AC_REQUIRE(chat, document);
  AC_TRY(check_index(chat, index));
  const ac_chat_entry *entry = &chat->entries[index];
  *document = (ac_chat_document){.count = entry->count,
                                 .file = chat->files[entry->file],
                                 .line = entry->line,
                                 .validates = entry->validates,
                                 .used = entry->used,
                                 .conversation = entry->conversation};
  return AC_OK;
}

ac_status ac_chat_get_tokens(const ac_chat *chat, int64_t index, size_t begin, size_t count,
                             uint32_t *ids, bool *learned) {
  AC_REQUIRE(chat, ids);
  AC_TRY(check_index(chat, index));
  const ac_chat_entry *entry = &chat->entries[index];
  if (begin > entry->count || count > entry->count - begin)
    return ac_fail(AC_ERROR_ARGUMENT, "chat: [%zu, %zu + %zu) is not a part of %u tokens", begin,
                   begin, count, entry->count);
  const uint32_t *from = chat->tokens + entry->begin + begin;
  for (size_t i = 0; i < count; i++) {
    ids[i] = from[i] & ~AC_CHAT_LEARNED;
    if (learned) learned[i] = (from[i] & AC_CHAT_LEARNED) != 0;
  }
  return AC_OK;
}
