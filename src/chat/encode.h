/* A text with spans as tokens. */
#ifndef AC_CHAT_ENCODE_H
#define AC_CHAT_ENCODE_H

#include <accrue/chat.h>

/* ac_chat_encode, with the special tokens that the tokenizer puts around a text if `add_special`.
 * *named: how many names of special tokens in messages stayed text. `learned` may be NULL. */
ac_status ac_chat_encode_text(ac_tokenizer *tokenizer, const ac_chat_text *text, bool add_special,
                              ac_encoding *encoding, bool **learned, size_t *named);

#endif
