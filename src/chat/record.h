/* An object of a JSON file as a text with spans. */
#ifndef AC_CHAT_RECORD_H
#define AC_CHAT_RECORD_H

#include <accrue/chat.h>

#include <jansson.h>

typedef struct ac_chat_record {
  ac_chat_text text;
  bool conversation; /* it is cut if it is too long, not divided */
  bool whole;        /* the text has all special tokens; else they are put around it */
} ac_chat_record;

/* Recognises the form by its keys. `chat_template` may be NULL. The sentence of a failure names
 * neither file nor line. ac_chat_text_free frees record->text. */
ac_status ac_chat_record_read(ac_chat_record *record, const json_t *json,
                              const ac_chat_template *chat_template,
                              const ac_chat_render_desc *desc);

/* The same of an object with a chosen and a rejected answer, in this order. */
ac_status ac_chat_record_read_pair(ac_chat_record records[2], const json_t *json,
                                   const ac_chat_template *chat_template,
                                   const ac_chat_render_desc *desc);

#endif
