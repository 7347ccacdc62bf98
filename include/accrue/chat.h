/** @file
 * Chats: conversations as text for a language model, and data sets of them.
 *
 * A model learns conversations in one form of text, its chat template: names of special tokens
 * around each message. This library renders a list of templates itself, exactly as the published
 * ones do, and recognises them in a model's files. It knows of each byte of a rendered text whether
 * it comes from a message, so what a message says never becomes a special token, and which tokens
 * are learned follows from bytes, not from a search for marks.
 *
 * To learn: ac_chat_source_read finds the template of a model, ac_chat_template_recognise names
 * it, ac_chat_open reads data, and ac_dataset_from_chat makes a dataset of it. */
#ifndef ACCRUE_CHAT_H
#define ACCRUE_CHAT_H

#include <accrue/dataset.h>
#include <accrue/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- templates ------------------------------------------------------------------------------- */

/** A chat template that this library renders. It belongs to the library. */
typedef struct ac_chat_template ac_chat_template;

/** How many templates there are. */
AC_API int ac_chat_template_count(void);

/** A template of the list. NULL if there is none with this index. */
AC_API const ac_chat_template *ac_chat_template_at(int index);

/** Its name, such as "chatml". */
AC_API const char *ac_chat_template_name(const ac_chat_template *chat_template);

/** Finds a template by its name. Fails with AC_ERROR_ARGUMENT, and lists the names, if there is
 * none. */
AC_API ac_status ac_chat_template_find(const ac_chat_template **chat_template, const char *name);

/** Finds the template that renders the same text as `jinja`, the `chat_template` of a model. The
 * text is compared with those of published models. Only what never changes a result may differ:
 * blanks within tags, blanks that Jinja removes, the kind of quotes, comments.
 *
 * Fails with AC_ERROR_UNSUPPORTED if this library does not know it: it never takes one that is only
 * alike. */
AC_API ac_status ac_chat_template_recognise(const ac_chat_template **chat_template,
                                            const char *jinja);

/** What a model's files say about chats. ac_chat_source_free frees it. */
typedef struct ac_chat_source {
  char *chat_template; /**< Jinja. NULL: there is none. */
  /** The text of the token that begins a text (bos). "": there is none. NULL: the files do not
   * say. */
  char *begin;
  char *end; /**< The same of the token that ends a text (eos). */
} ac_chat_source;

/** Reads chat_template.jinja and tokenizer_config.json of a folder. A file may be
 * missing. Of several templates in tokenizer_config.json it takes the one named "default". If
 * `path` is a GGUF file (.gguf), its metadata are read; for any other file its folder is
 * read.
 *
 * Fails with AC_ERROR_IO if a file cannot be read, and with AC_ERROR_FORMAT if it is malformed. */
AC_API ac_status ac_chat_source_read(ac_chat_source *source, const char *path);

/** Frees what a source holds, and sets it to zeros. */
AC_API void ac_chat_source_free(ac_chat_source *source);

/* ---- rendering ------------------------------------------------------------------------------- */

/** Which turns are learned. */
typedef enum ac_chat_learn {
  AC_LEARN_ASSISTANT = 0, /**< What the assistant says, and the token that ends its turn. */
  AC_LEARN_ALL            /**< All of the text. */
} ac_chat_learn;

/** Whether one message is learned. */
typedef enum ac_chat_turn {
  AC_TURN_DEFAULT = 0, /**< As ac_chat_learn says. */
  AC_TURN_LEARNED,     /**< Yes, also if it is not the assistant's. */
  AC_TURN_NOT_LEARNED  /**< No. */
} ac_chat_turn;

/** A message of a conversation. */
typedef struct ac_chat_message {
  const char *role;    /**< "system", "user" or "assistant". */
  const char *content; /**< UTF-8. */
  ac_chat_turn turn;   /**< Whether it is learned. */
} ac_chat_message;

/** How to render. */
typedef struct ac_chat_render_desc {
  /** Ends with what comes before an answer of the assistant. */
  bool generation_prompt;
  ac_chat_learn learn; /**< What is learned. */
  const char *begin;   /**< The text of the token that begins a text. NULL: the template's own. */
  const char *end;     /**< The text of the token that ends one. NULL: the template's own. */
  /** The date that templates of Llama 3.1 and later and of SmolLM3 write. NULL: "26 Jul 2024", as
   * those of Llama 3.1 say, and "26 July 2024" for SmolLM3. (For Llama 3.2 and SmolLM3 programs in
   * Python write the day on which they run.) */
  const char *date;
} ac_chat_render_desc;

/** A part of a rendered text. */
typedef struct ac_chat_span {
  size_t begin; /**< Its first byte in the text. */
  size_t end;   /**< The byte after its last. */
  bool content; /**< It comes from a message: names of special tokens in it stay text. */
  bool learned; /**< Tokens of it are learned. */
} ac_chat_span;

/** A rendered text. Its spans follow each other and cover it. */
typedef struct ac_chat_text {
  char *text;          /**< UTF-8, with a 0 after it. */
  size_t bytes;        /**< Its length. */
  ac_chat_span *spans; /**< [span_count]. */
  size_t span_count;   /**< How many spans there are. */
} ac_chat_text;

/** Renders a conversation of `count` messages. ac_chat_text_free frees the result, which is all
 * zeros if this fails. `desc` may be NULL.
 *
 * Fails with AC_ERROR_FORMAT, and names message and role, where the template itself fails (roles
 * that do not alternate, a system message that it does not have), and for roles other than
 * "system", "user" and "assistant". */
AC_API ac_status ac_chat_render(const ac_chat_template *chat_template,
                                const ac_chat_message *messages, size_t count,
                                const ac_chat_render_desc *desc, ac_chat_text *text);

/** Frees what a text holds, and sets it to zeros. */
AC_API void ac_chat_text_free(ac_chat_text *text);

/** Encodes a rendered text. The tokens are those of the whole text, but names of special tokens are
 * found only in what the template has written. *learned gets an array with a value for each token,
 * which free() frees: a token is learned if some of its bytes are. It may be NULL.
 *
 * ac_encoding_free frees the encoding, which is all zeros if this fails. */
AC_API ac_status ac_chat_encode(ac_tokenizer *tokenizer, const ac_chat_text *text,
                                ac_encoding *encoding, bool **learned);

/* ---- data ------------------------------------------------------------------------------------ */

/** What becomes of a conversation that is longer than a sample. A text that is not a conversation
 * is divided instead, and all of it is learned. */
typedef enum ac_chat_long {
  AC_LONG_CUT = 0, /**< It is cut at the end of the sample. */
  AC_LONG_DROP     /**< It is left out. */
} ac_chat_long;

/** How to read data. */
typedef struct ac_chat_desc {
  ac_tokenizer *tokenizer; /**< Must be given. It is used while the data are read. */
  /** For conversations. NULL: data with conversations are refused. */
  const ac_chat_template *chat_template;
  int64_t context;     /**< Tokens that a sample predicts, 1 to 2^24. */
  ac_chat_learn learn; /**< What is learned of conversations. */
  /** One document a sample. Else samples have as many documents as fit. */
  bool no_packing;
  ac_chat_long long_documents; /**< What becomes of conversations that are too long. */
  /** The share of documents that validates, in [0, 1). It is chosen by a hash of each document's
   * tokens, so documents that are added move no others, and equal ones are on the same side. At
   * least one document validates and one trains. Of a single text its end validates. */
  double validation;
  const char *begin; /**< As in ac_chat_render_desc. */
  /** As in ac_chat_render_desc. It also follows each text that is not a conversation, if the
   * tokenizer has such a token. */
  const char *end;
  const char *date; /**< As in ac_chat_render_desc. */
  /** The data are preferences: each object has a `chosen` and a `rejected` answer, which are two
   * documents. */
  bool preferences;
} ac_chat_desc;

/** Documents: conversations and texts as tokens, all in memory, 4 bytes a token. */
typedef struct ac_chat ac_chat;

/** Reads data. `path` is a file, plain or gzip, or a folder. A file has JSON if its name ends in
 * .jsonl, .ndjson or .json, or, with another name, if it begins with `{` or `[`: an object a line,
 * or one array of objects. Any other is one text. Of a folder all JSON files below it are read, in
 * byte order of their paths, or, if it has none, all files of text (.txt, .md, .markdown, .rst,
 * .text).
 *
 * An object is recognised by its keys:
 *
 * - `messages`, a list of objects with `role` and `content` (a text or a list of parts with
 * `text`);
 * - `conversations`, a list of objects with `from` and `value` (ShareGPT), and perhaps `system`;
 * - `prompt` and `completion`, two texts, which follow each other without a template, or two lists
 *   of messages; the prompt is not learned;
 * - `instruction`, `output` and perhaps `input`, `system`, `history` (Alpaca): a message of the
 *   user, with instruction and input in two lines, and one of the assistant;
 * - `text` and `spans`, a list of [begin, end) in bytes of UTF-8: a text rendered already, in which
 *   names of special tokens count. The tokens in spans are learned;
 * - `text`: a text. All of it is learned.
 *
 * A message that has `weight` or `train` with 0 or false is not learned, with 1 or true it is.
 *
 * With `preferences` an object has `chosen` and `rejected`, and perhaps `prompt`. All are texts,
 * which follow each other without a template, or chosen and rejected are lists of messages: either
 * answers to the prompt, which is a list of messages or a text of the user, or whole conversations:
 * then the messages that both begin with are the prompt. Only answers are learned. If one of the
 * two is too long for a sample, both are cut, or left out; if nothing is learned of one, both are
 * left out.
 *
 * Fails with AC_ERROR_FORMAT, and names file and line, if an object has none of these forms or a
 * template refuses it, and if nothing is learned in any document; with AC_ERROR_UNSUPPORTED if it
 * has tools, thoughts in a key of their own, or pictures; with AC_ERROR_ARGUMENT if a conversation
 * has no template; with AC_ERROR_MEMORY before the data fill the machine's memory. */
AC_API ac_status ac_chat_open(ac_chat **chat, const char *path, const ac_chat_desc *desc);

/** Frees documents. */
AC_API void ac_chat_free(ac_chat *chat);

/** One side of the data: what trains, or what validates. */
typedef struct ac_chat_side {
  int64_t documents; /**< How many documents it has. */
  int64_t samples;   /**< How many samples it has. */
  int64_t tokens;    /**< Tokens that are predicted or read in order to predict others. */
  int64_t learned;   /**< How many of them are learned. */
  int64_t padding;   /**< Positions of samples that have no token. */
} ac_chat_side;

/** How many lengths a histogram has. */
#define AC_CHAT_LENGTHS 32

/** What data have. */
typedef struct ac_chat_info {
  int64_t files;         /**< Files that were read. */
  int64_t files_skipped; /**< Files of a folder that were left out because of their names. */
  int64_t documents;     /**< All that were read. */
  int64_t unlearned;     /**< Those left out because none of their tokens is learned. */
  int64_t dropped;       /**< Those left out because they are too long: with AC_LONG_DROP, or as the
                            context cuts off all that is learned. */
  int64_t cut;           /**< Those that were cut. */
  int64_t cut_tokens;    /**< Tokens that were cut off. */
  int64_t divided;       /**< Texts that were divided. */
  int64_t longest;       /**< Tokens of the longest document. */
  int64_t named;    /**< Documents in which messages or texts have names of special tokens. These
                       stay text. */
  int64_t replaced; /**< Bytes that are not UTF-8, each read as U+FFFD. */
  /** How many documents have a length in [2^i, 2^(i+1)) tokens. */
  int64_t lengths[AC_CHAT_LENGTHS];
  ac_chat_side train;      /**< What trains. */
  ac_chat_side validation; /**< What validates. */
} ac_chat_info;

/** *info gets what data have. */
AC_API void ac_chat_get_info(const ac_chat *chat, ac_chat_info *info);

/** A document of the data. */
typedef struct ac_chat_document {
  size_t count;      /**< Tokens, those that were cut off included. */
  const char *file;  /**< Where it comes from. */
  int64_t line;      /**< Its line in the file, or its place in an array, from 1 on. 0: the file. */
  bool validates;    /**< It is on the side that validates. */
  bool used;         /**< It is in a sample. */
  bool conversation; /**< It is cut if it is too long. Otherwise it is divided. */
} ac_chat_document;

/** Document `index` of all that were read, in their order. Fails with AC_ERROR_ARGUMENT if there is
 * none. */
AC_API ac_status ac_chat_get_document(const ac_chat *chat, int64_t index,
                                      ac_chat_document *document);

/** Tokens [begin, begin + count) of a document, and whether each is learned. `ids` and `learned`
 * have `count` elements; `learned` may be NULL. Fails with AC_ERROR_ARGUMENT if it has not that
 * many. */
AC_API ac_status ac_chat_get_tokens(const ac_chat *chat, int64_t index, size_t begin, size_t count,
                                    uint32_t *ids, bool *learned);

/** Makes a dataset of one side. The documents must outlive it. A sample has the fields
 *
 * - "tokens" i32 [context], and "targets" i32 [context]: the token that follows each;
 * - "weights" f32 [context]: 1 if the target is learned, else 0;
 * - "segments" i32 [context]: which document of the sample it is, from 0 on; -1 is padding;
 * - "positions" i32 [context]: the place in its document, from 0 on.
 *
 * Padding has the tokens and targets 0 and the weight 0. No document predicts a token of another
 * one: the last token of a document is a target only. Packing is best fit by decreasing length. It
 * depends on the lengths alone, and samples are in the order of their first documents.
 *
 * Of preferences, a sample is a pair, with the fields "chosen_tokens", "chosen_targets",
 * "chosen_weights", "rejected_tokens", "rejected_targets" and "rejected_weights". Padding is at the
 * end, where causal attention never sees it.
 *
 * Fails with AC_ERROR_ARGUMENT if that side has no document. */
AC_API ac_status ac_dataset_from_chat(ac_dataset **dataset, const ac_chat *chat, bool validation);

#ifdef __cplusplus
}
#endif
#endif
