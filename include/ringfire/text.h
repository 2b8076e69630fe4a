/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Text for models: lines of files, tokenizers that turn text into numbers and back, chats and other
 * objects of JSON Lines, and rectangular arrays of sequences.
 *
 * The following holds for the whole header unless a comment states otherwise.
 *  - A text is bytes, normally UTF-8. It may contain any bytes, zeros too: each function says what
 *    it does with bytes that are not UTF-8. Neither locales nor the environment matter.
 *  - An array of texts comes with an array of their sizes in bytes; where that is NULL, each text
 *    ends with a zero byte.
 *  - Tokenizers and lists of lines never change after they were made, so any number of threads may
 *    use one at the same time.
 *  - The same texts give the same tokenizer, byte for byte in its file, on every machine.
 */
#ifndef RINGFIRE_TEXT_H
#define RINGFIRE_TEXT_H

#include <ringfire/common.h>
#include <ringfire/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- lines ---- */

/** The lines of files, in memory. */
typedef struct rf_text_lines rf_text_lines;

/**
 * Reads files, one after the other, and cuts them into lines at "\n" or "\r\n", which are not part
 * of the lines. Empty lines are lines; what follows the last line feed is one where it is not
 * empty. A byte order mark at the beginning of a file is left out. Other bytes are not looked at.
 * Files are plain or gzipped (detected from the content). rf_dataset_from_text_lines() (readers.h)
 * reads files that are too large for that.
 * Blocking: reads the files.
 * @param[out] out owned by the caller, who calls rf_text_lines_destroy().
 * @return RF_ERROR_NOT_FOUND or RF_ERROR_IO with the name of the file; RF_ERROR_UNSUPPORTED for
 *   UTF-16, UTF-32 and what is compressed in another way, RF_ERROR_CORRUPT_DATA for a damaged or
 *   cut compressed file.
 */
RF_API RF_MUST_USE rf_result rf_text_lines_read(const char *const *paths, uint32_t num_paths,
                                                rf_text_lines **out);
/** The number of lines. */
RF_API uint64_t rf_text_lines_count(const rf_text_lines *lines);
/** The lines, each followed by a zero byte. They belong to `lines`. */
RF_API const char *const *rf_text_lines_texts(const rf_text_lines *lines);
/** How many bytes each line has. The array belongs to `lines`. */
RF_API const size_t *rf_text_lines_sizes(const rf_text_lines *lines);
/** Frees the lines. */
RF_API void rf_text_lines_destroy(rf_text_lines **lines);

/* ---- tokenizers ---- */

/** Turns text into token numbers, and token numbers into text. */
typedef struct rf_tokenizer rf_tokenizer;

/** The kind of a tokenizer's tokens. */
typedef enum rf_tokenizer_kind {
    /**
     * Unicode characters. A byte that is not part of valid UTF-8 is a character of its own, so
     * that decoding gives back any text whose characters are all in the vocabulary. Characters that
     * are not are left out, or become "[UNK]" where `special_tokens` lists it.
     */
    RF_TOKENIZER_CHARACTERS,
    /**
     * Words, as Keras' TextVectorization with its defaults: upper-case ASCII letters become
     * lower-case ones, ASCII punctuation is removed, and ASCII white space separates the words.
     * Token 0 is "" for padding, token 1 is "[UNK]", and then come the words from the most frequent
     * one on, equally frequent ones in the order of their bytes.
     */
    RF_TOKENIZER_WORDS,
    /**
     * Pieces of words, as BERT's WordPiece. Control characters, characters that are private or not
     * assigned, and bytes that are not UTF-8 are left out. Letters of all of Unicode become
     * lower-case, are decomposed (NFD: Korean syllables too) and lose their accents. White space,
     * punctuation marks and Chinese characters separate words, and the latter two are words
     * themselves. Characters are those of the Unicode version of utf8proc. A word becomes the
     * longest tokens that it begins with, one after the other; those inside of words begin with
     * "##". A word that cannot be made of tokens, or has more than 100 characters, becomes "[UNK]".
     * In training, tokens 0 to 4 are "[PAD]", "[UNK]", "[CLS]", "[SEP]" and "[MASK]".
     */
    RF_TOKENIZER_WORD_PIECE,
    /**
     * Byte pairs, after GPT-2. Text is cut into words with the space before them, numbers, runs of
     * other characters and white space. In each of these the pair of tokens that was merged first
     * in training is merged first. Tokens 0 to 255 are the bytes, so every text has tokens and
     * decoding gives back its bytes. All bytes above 127 count as letters.
     */
    RF_TOKENIZER_BYTE_PAIR,
    /**
     * As a file of Hugging Face's library says, tokenizer.json: rf_tokenizer_load() makes such a
     * tokenizer, nothing else does. A token's text is as the file has it, where a byte-level model
     * writes "Ġthe" for " the". Bytes that are not UTF-8 become U+FFFD before anything else, one
     * for each run of bytes that a character could begin with. Unlike the other kinds, special
     * tokens in a text become these tokens, unless rf_tokenizer_encode_params says otherwise.
     */
    RF_TOKENIZER_PIPELINE,
} rf_tokenizer_kind;

/** How a tokenizer is made. */
typedef struct rf_tokenizer_params {
    rf_tokenizer_kind kind;
    /**
     * The size of the vocabulary, special tokens included, at most. 0: no limit for characters and
     * words, 30,522 for WordPiece (BERT's), 50,257 for byte pairs (GPT-2's)
     */
    uint32_t max_tokens;
    /**
     * Words, characters and pairs that occur less often become no tokens; 0: 1, but 2 for the pairs
     * of WordPiece and byte pairs
     */
    uint32_t min_count;
    bool keep_case;        /**< words, WordPiece: upper case and accents stay */
    bool keep_punctuation; /**< words only: punctuation is part of the words */
    /**
     * Further special tokens, such as "[START]" or "<|endoftext|>". Text never becomes one of them:
     * programs insert them by their number. They follow the kind's own ones; among byte pairs, they
     * are the last tokens.
     */
    const char *const *special_tokens;
    uint32_t num_special_tokens;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_tokenizer_params;

/**
 * Makes a tokenizer whose vocabulary is learned from texts.
 * WordPiece begins with the characters of the words (where there are too many, with the most
 * frequent ones), byte pairs with the bytes. Then the most frequent pair of neighbours becomes a
 * token, again and again, until the vocabulary is full or no pair is frequent enough. The pair with
 * the smaller token numbers is first of equally frequent ones. Tokens have at most 128 bytes.
 * Computes for up to a second for each megabyte of text. With no text at all, the vocabulary has
 * what it always has.
 * @param sizes NULL: each text ends with a zero byte.
 * @param[out] out owned by the caller, who calls rf_tokenizer_destroy().
 * @return RF_ERROR_INVALID_ARGUMENT when `max_tokens` does not hold the special tokens (and the 256
 *   bytes), or when a special token is empty or given twice.
 */
RF_API RF_MUST_USE rf_result rf_tokenizer_train(const rf_tokenizer_params *params,
                                                const char *const *texts, const size_t *sizes,
                                                uint64_t num_texts, rf_tokenizer **out);
/**
 * Makes a tokenizer with a given vocabulary, in the order of the numbers, such as the lines of
 * BERT's vocab.txt. The special tokens must be among `tokens`, at whatever place; `max_tokens` and
 * `min_count` do not matter. Not for byte pairs, which need an order of merging.
 * @param sizes NULL: each token ends with a zero byte.
 * @param[out] out owned by the caller, who calls rf_tokenizer_destroy().
 * @return RF_ERROR_INVALID_ARGUMENT names the place of a token that is there twice or cannot occur.
 */
RF_API RF_MUST_USE rf_result rf_tokenizer_create(const rf_tokenizer_params *params,
                                                 const char *const *tokens, const size_t *sizes,
                                                 uint32_t num_tokens, rf_tokenizer **out);
/** Frees a tokenizer. */
RF_API void rf_tokenizer_destroy(rf_tokenizer **tokenizer);

/** The kind of the tokens. */
RF_API rf_tokenizer_kind rf_tokenizer_get_kind(const rf_tokenizer *tokenizer);
/** The number of tokens, special ones included: the depth of an embedding. */
RF_API uint32_t rf_tokenizer_vocabulary_size(const rf_tokenizer *tokenizer);
/** The number of a token, given as text that ends with a zero byte; -1 where there is no such. */
RF_API int32_t rf_tokenizer_id(const rf_tokenizer *tokenizer, const char *token);
/**
 * The bytes of a token, followed by a zero byte. They belong to the tokenizer. NULL where there is
 * no token of this number.
 * @param[out] size how many bytes. May be NULL.
 */
RF_API const char *rf_tokenizer_token(const rf_tokenizer *tokenizer, int32_t id, size_t *size);
/** Whether the token is one that text never becomes, except for "[UNK]". */
RF_API bool rf_tokenizer_is_special(const rf_tokenizer *tokenizer, int32_t id);

/**
 * Turns a text of `size` bytes into token numbers. The time grows with the size of the text, and
 * for byte pairs with the logarithm of its longest word, too.
 * @param[out] out i32 [n], owned by the caller, who frees it with rf_array_free(). n may be 0.
 */
RF_API RF_MUST_USE rf_result rf_tokenizer_encode(const rf_tokenizer *tokenizer, const char *text,
                                                 size_t size, rf_array *out);
/** How a text becomes tokens of a tokenizer.json; zeros are what rf_tokenizer_encode() does. */
typedef struct rf_tokenizer_encode_params {
    const char *pair;          /**< a second text, such as an answer; NULL: none */
    size_t pair_size;          /**< its bytes */
    bool no_special_tokens;    /**< without those that the post-processor puts around texts */
    bool split_special_tokens; /**< special tokens in the texts are text like any other */
    uint64_t reserved[8];      /**< zero: room for later fields */
} rf_tokenizer_encode_params;
/**
 * Turns a text of `size` bytes, or a pair of texts, into token numbers as a tokenizer.json says.
 * Where the file has a truncation, the result has at most as many tokens.
 * @param params NULL: all zeros.
 * @param[out] out i32 [n], owned by the caller, who frees it with rf_array_free().
 * @param[out] types i32 [n], owned by the caller: the type of each token, as the post-processor
 *   says, usually 0 in the first text and 1 in the second one. May be NULL.
 * @return RF_ERROR_INVALID_ARGUMENT for tokenizers of other kinds; RF_ERROR_UNSUPPORTED where a
 *   regular expression of the file takes too long for the text.
 */
RF_API RF_MUST_USE rf_result rf_tokenizer_encode_with(const rf_tokenizer *tokenizer,
                                                      const char *text, size_t size,
                                                      const rf_tokenizer_encode_params *params,
                                                      rf_array *out, rf_array *types);
/**
 * Turns token numbers into text. Special tokens are left out, except for "[UNK]" of other kinds
 * than RF_TOKENIZER_PIPELINE. Words and WordPiece's words are separated by one space; characters
 * and byte pairs follow each other; a tokenizer.json has its decoder.
 * @param tokens `count` numbers. May be NULL when there are none.
 * @param[out] text followed by a zero byte. Owned by the caller, who frees it with
 * rf_string_free().
 * @param[out] size its bytes. May be NULL.
 * @return RF_ERROR_INVALID_ARGUMENT names the place of a number that is no token.
 */
RF_API RF_MUST_USE rf_result rf_tokenizer_decode(const rf_tokenizer *tokenizer,
                                                 const int32_t *tokens, uint64_t count, char **text,
                                                 size_t *size);

/** The text of tokens that come one by one, such as those of a model that generates. */
typedef struct rf_text_stream rf_text_stream;
/** Options of rf_text_stream_create(). The tokenizer is required. */
typedef struct rf_text_stream_params {
    const rf_tokenizer *tokenizer; /**< borrowed as long as the stream lives */
    /** Texts that end the stream where they appear, of 1 to 4096 bytes; copied. */
    const char *const *stop_strings;
    uint32_t num_stop_strings;
    uint64_t reserved[6]; /**< zero: room for later fields */
} rf_text_stream_params;
/**
 * Makes a stream without tokens. It is for one thread at a time.
 * @param[out] out owned by the caller, who calls rf_text_stream_destroy().
 */
RF_API RF_MUST_USE rf_result rf_text_stream_create(const rf_text_stream_params *params,
                                                   rf_text_stream **out);
/**
 * Adds a token, and gives the text that is certain then. A character of which bytes are missing is
 * held back, and so is what may be the beginning of a stop string. All texts together are
 * rf_tokenizer_decode() of all tokens, up to the first stop string.
 * @param[out] text followed by a zero byte; often empty. It belongs to the stream, until the next
 *   call.
 * @param[out] size its bytes. May be NULL.
 * @return RF_END when a stop string has appeared, and from then on; RF_ERROR_INVALID_ARGUMENT for a
 *   number that is no token, which changes nothing.
 */
RF_API RF_MUST_USE rf_result rf_text_stream_add(rf_text_stream *stream, int32_t token,
                                                const char **text, size_t *size);
/**
 * Gives what was held back, and ends the stream.
 * @param[out] text as that of rf_text_stream_add(), like `size`
 * @return RF_END
 */
RF_API RF_MUST_USE rf_result rf_text_stream_finish(rf_text_stream *stream, const char **text,
                                                   size_t *size);
/** Destroys a stream. */
RF_API void rf_text_stream_destroy(rf_text_stream **stream);

/**
 * Writes a tokenizer to a file, JSON that says its version. Blocking: writes and syncs the file,
 * which appears only when it is complete.
 * @return RF_ERROR_IO with the name of the file.
 */
RF_API RF_MUST_USE rf_result rf_tokenizer_save(const rf_tokenizer *tokenizer, const char *path);
/**
 * Reads a tokenizer from a file that rf_tokenizer_save() wrote, from a tokenizer.json of Hugging
 * Face's library, or from a GGUF file; the content says which. Blocking: reads the file.
 * These parts of a tokenizer.json are known: the models BPE, WordPiece, Unigram and WordLevel; the
 * normalizers NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend,
 * BertNormalizer, Nmt, ByteLevel and Precompiled; the pre-tokenizers ByteLevel, Split, Metaspace,
 * BertPreTokenizer, Whitespace, WhitespaceSplit, Punctuation, Digits and CharDelimiterSplit; the
 * post-processors TemplateProcessing, BertProcessing, RobertaProcessing and ByteLevel; the decoders
 * ByteLevel, ByteFallback, Fuse, Metaspace, WordPiece, BPEDecoder, Replace and Strip; sequences of
 * all these; added tokens, and truncation. Its padding has no effect: rf_tokenizer_encode_padded()
 * pads. The numbers of its tokens have no gaps. Saving such a tokenizer writes the same file.
 * A GGUF file has tokens of the models "gpt2", with the rules "gpt-2", "llama-bpe", "qwen2" or
 * "smollm" for words, and "llama", whose scores become merges; it becomes the tokenizer.json that
 * says the same, and is saved as such. Another model, rule or value is an error that names it.
 * @param[out] out owned by the caller, who calls rf_tokenizer_destroy().
 * @return RF_ERROR_NOT_FOUND, RF_ERROR_IO, or RF_ERROR_CORRUPT_DATA for a file that is no tokenizer
 *   or was cut or changed; RF_ERROR_UNSUPPORTED for one of a later version, and for a component or
 *   a member of a tokenizer.json that is not known. The message names the file, and the place in
 * it.
 */
RF_API RF_MUST_USE rf_result rf_tokenizer_load(const char *path, rf_tokenizer **out);

/* ---- JSON Lines ---- */

/** A member of the objects of JSON Lines, which makes one component. */
typedef struct rf_jsonl_field {
    const char *name;
    /**
     * RF_U8: the bytes of a text, UTF-8. RF_I32 and RF_F32: a number, true (1) or false (0), or
     * lists of them. With a tokenizer RF_I32, also where this is zero.
     */
    rf_dtype dtype;
    /** of the component, which the values fill: [n] for texts; a scalar by default */
    rf_shape shape;
    /** The values may be fewer rows than shape.dim[0], also none, and the component then has that
     * dim[0]: for rf_dataset_padded_batch(). */
    bool variable;
    /** A longer value is cut off at the end, and counted (rf_dataset_cut_elements()); else it is an
     * error. */
    bool truncate;
    /** turns the text into tokens; borrowed by every dataset and iterator made from this one */
    const rf_tokenizer *tokenizer;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_jsonl_field;
/** Files for rf_dataset_from_jsonl(). But for tokenizers, all is read by the call only. */
typedef struct rf_jsonl_params {
    const char *const *paths;
    uint32_t num_paths;
    uint32_t num_fields; /**< 1 to RF_MAX_COMPONENTS */
    const rf_jsonl_field *fields;
    uint32_t max_bytes;   /**< of a line; a longer one is an error. 0: 1 MiB; at most 1 GiB */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_jsonl_params;
/**
 * The objects of JSON Lines files (jsonlines.org), one file after the other, each with the members
 * that `fields` name as components. Empty lines are no elements. Other members may hold anything.
 * Files are plain or gzipped (detected from the content), in UTF-8.
 *
 * Blocking: reads every file once, to count its lines; a byte of memory for each line of a plain
 * file. An object is read and parsed when its element is needed, each time anew, in the memory of
 * one line. Elements are fetched by number: a shuffle of all of them is a permutation, a saved
 * position is reached at once, and a worker reads its own lines only, or its own files
 * (::RF_DISTRIBUTE_BY_FILE).
 *
 * Compressed files are unpacked once to be counted, and again in each pass. Where there is one, all
 * are read in order, and every worker unpacks all of them, but for ::RF_DISTRIBUTE_BY_FILE.
 *
 * rf_dataset_ignore_errors() leaves damaged lines out and counts them.
 * @return RF_ERROR_NOT_FOUND or RF_ERROR_IO with the file; RF_ERROR_UNSUPPORTED for UTF-16 and
 *   UTF-32. From rf_iterator_next(), with the file and the number of the line, from 1:
 *   RF_ERROR_CORRUPT_DATA for what is no object, or a member that is missing or of another kind;
 *   RF_ERROR_INVALID_ARGUMENT for a line that is too long.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_jsonl(const rf_jsonl_params *params, rf_dataset **out);

/** The label of a token that is not to be learned, as PyTorch's ignore_index. */
#define RF_IGNORED_LABEL (-100)
/** A message of a chat. */
typedef struct rf_chat_message {
    const char *role;     /**< such as "system", "user" or "assistant" */
    const char *content;  /**< UTF-8, followed by a zero byte; "" where there is none */
    size_t content_size;  /**< its bytes */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_chat_message;
/** A chat. All belongs to the library, and lives as long as the call that it is given to. */
typedef struct rf_chat {
    const rf_chat_message *messages;
    uint32_t num_messages;
    const char *json; /**< the object as it is in the file: for further members, such as tools */
    size_t json_size; /**< its bytes */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_chat;
/** Where a function of rf_chats_params puts the tokens of a chat. */
typedef struct rf_chat_tokens rf_chat_tokens;
/**
 * Appends tokens to those of a chat. Those beyond rf_chats_params::max_tokens are dropped.
 * @param tokens `count` numbers from 0 on, copied.
 * @param trained whether a model is to learn to say them: true for answers, false for questions.
 */
RF_API RF_MUST_USE rf_result rf_chat_tokens_append(rf_chat_tokens *out, const int32_t *tokens,
                                                   uint64_t count, bool trained);
/**
 * Turns a chat into tokens, as the template of a model says: it calls rf_chat_tokens_append() for
 * each part. It follows the rules of ::rf_map_fn.
 */
typedef rf_result (*rf_chat_render_fn)(void *user, const rf_chat *chat, rf_chat_tokens *out);
/** Files for rf_dataset_from_chats(). Paths and the end token's text are read by the call only. */
typedef struct rf_chats_params {
    const char *const *paths;
    uint32_t num_paths;
    uint32_t max_tokens; /**< of an element; what follows is cut off and counted. 0: 1024 */
    uint32_t max_bytes;  /**< of a line; a longer one is an error. 0: 1 MiB; at most 1 GiB */
    /** for objects with "messages"; NULL: there are none */
    rf_chat_render_fn render;
    /** passed to `render`; borrowed by every dataset and iterator made from this one */
    void *user;
    /** for objects with "prompt" and "completion" or with "text"; borrowed as `user` is. NULL:
     * there are none */
    const rf_tokenizer *tokenizer;
    const char *end_token; /**< that ends a completion or a text, such as "</s>"; NULL: none */
    uint64_t reserved[4];  /**< zero: room for later fields */
} rf_chats_params;
/**
 * Examples for language models, in JSON Lines files: elements are (tokens i32 [n], labels i32
 * [n]) with n from 1 to max_tokens, for rf_dataset_padded_batch() with the padding
 * ::RF_IGNORED_LABEL of labels. The label of a token is the token that follows it where that one is
 * to be learned, and else ::RF_IGNORED_LABEL, for `ignore_class` of losses and metrics.
 *
 * An object has one of these, of which the first counts:
 *  - "messages": [{"role": "user", "content": "..."}, ...], which `render` turns into tokens. A
 *    content may also be a list of {"type": "text", "text": "..."}, which are joined.
 *  - "prompt" and "completion", of which the completion is learned, and `end_token`.
 *  - "text", all of which is learned, and `end_token`.
 *
 * Files are read as rf_dataset_from_jsonl() reads them, with the same errors. A chat or text that
 * is longer than `max_tokens` loses its end, and rf_dataset_cut_elements() counts it. Where nothing
 * is left to be learned, such as behind a long question, that is an error of the element, which
 * rf_dataset_ignore_errors() leaves out and counts.
 * @return RF_ERROR_INVALID_ARGUMENT where the tokenizer has no such `end_token`; from
 *   rf_iterator_next(), also where `render` or `tokenizer` is missing for an object, and where all
 *   that is to be learned was cut off.
 */
RF_API RF_MUST_USE rf_result rf_dataset_from_chats(const rf_chats_params *params, rf_dataset **out);

/* ---- chat templates ---- */

/** The template of a model: how its chats are written as text. */
typedef struct rf_chat_template rf_chat_template;
/** A template for rf_chat_template_create(). The text is required. */
typedef struct rf_chat_template_params {
    const char *text; /**< Jinja, UTF-8; copied */
    size_t size;      /**< its bytes */
    /** a tokenizer.json, which text becomes tokens with; borrowed. NULL: text alone */
    const rf_tokenizer *tokenizer;
    /** Variables of the template, a JSON object: {"bos_token": "<s>"}. Copied; NULL: none */
    const char *variables;
    uint64_t reserved[6]; /**< zero: room for later fields */
} rf_chat_template_params;
/**
 * Makes a template of its text. It never changes then, and any number of threads may use it.
 *
 * Templates are in the part of Jinja that the models of the Hugging Face hub use: the tags `for`
 * with `if`, `else`, `break` and `continue`, `if`, `set`, `macro` and `generation`; all operators
 * but `**`; slices, calls, and attributes of a namespace and of `loop`; the filters, tests, methods
 * and functions that the guide "Chats" lists. White space is as that library sets it
 * (`trim_blocks`, `lstrip_blocks`). `strftime_now` is not defined, so that texts do not depend on
 * the day. A template cannot include files, and its steps and memory are bounded.
 * @param[out] out owned by the caller, who calls rf_chat_template_destroy().
 * @return RF_ERROR_UNSUPPORTED for what is not known and RF_ERROR_CORRUPT_DATA for what is no
 *   Jinja, with its line.
 */
RF_API RF_MUST_USE rf_result rf_chat_template_create(const rf_chat_template_params *params,
                                                     rf_chat_template **out);
/**
 * Reads the template of a directory of the Hugging Face hub: `chat_template.jinja`, or
 * "chat_template" in `tokenizer_config.json`, of several the one with the name "default". The
 * special tokens of that file are its variables, such as "bos_token". `directory` may be a GGUF
 * file, which has both among its values. Blocking.
 * @param tokenizer that of the directory, borrowed; NULL: text alone
 * @return RF_ERROR_NOT_FOUND where there is no template, or no file; RF_ERROR_IO;
 *   RF_ERROR_CORRUPT_DATA; and the errors of rf_chat_template_create(). The message names the file.
 */
RF_API RF_MUST_USE rf_result rf_chat_template_load(const char *directory,
                                                   const rf_tokenizer *tokenizer,
                                                   rf_chat_template **out);
/** Destroys a template. */
RF_API void rf_chat_template_destroy(rf_chat_template **chat_template);

/** How a chat is written; zeros: all of it, with nothing behind it. */
typedef struct rf_chat_apply_params {
    bool add_generation_prompt; /**< write what comes before an answer at the end */
    /** Further variables, a JSON object: {"enable_thinking": false}. NULL: none */
    const char *variables;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_chat_apply_params;
/**
 * Writes a chat as text. The template sees its messages, and the members "tools" and "documents" of
 * rf_chat::json, which are none where there are no such.
 * @param params may be NULL
 * @param[out] text followed by a zero byte. Owned by the caller, who frees it with
 *   rf_string_free().
 * @param[out] size its bytes. May be NULL.
 * @return RF_ERROR_INVALID_ARGUMENT for a chat that the template refuses, with its words and the
 *   line; RF_ERROR_UNSUPPORTED for a method that is not known, and for a template that takes too
 *   many steps or too much memory.
 */
RF_API RF_MUST_USE rf_result rf_chat_template_apply(const rf_chat_template *chat_template,
                                                    const rf_chat *chat,
                                                    const rf_chat_apply_params *params, char **text,
                                                    size_t *size);
/**
 * Writes a chat as tokens: those of its text, in which special tokens count as such.
 * @param[out] out i32 [n], owned by the caller, who frees it with rf_array_free().
 * @return the errors of rf_chat_template_apply(); RF_ERROR_INVALID_ARGUMENT without a tokenizer.
 */
RF_API RF_MUST_USE rf_result rf_chat_template_encode(const rf_chat_template *chat_template,
                                                     const rf_chat *chat,
                                                     const rf_chat_apply_params *params,
                                                     rf_array *out);
/**
 * The function for rf_chats_params::render, with an rf_chat_template as `user`. A model learns to
 * say what stands in the template's tag `generation` or, where it has none, what the template
 * writes for messages of the role "assistant", behind the generation prompt.
 * @return the errors of rf_chat_template_encode(); RF_ERROR_UNSUPPORTED where the template writes
 *   the beginning of a chat anew for later messages.
 */
RF_API RF_MUST_USE rf_result rf_chat_template_render(void *chat_template, const rf_chat *chat,
                                                     rf_chat_tokens *out);

/* ---- sequences ---- */

/** An end of a sequence. */
typedef enum rf_sequence_end { RF_SEQUENCE_PRE, RF_SEQUENCE_POST } rf_sequence_end;
/** How sequences get one length; zeros are the defaults of Keras' pad_sequences. */
typedef struct rf_sequence_pad_params {
    uint32_t length;            /**< of all; 0: of the longest one */
    int32_t value;              /**< of padding */
    rf_sequence_end padding;    /**< where shorter sequences are padded */
    rf_sequence_end truncating; /**< where longer sequences lose tokens */
    uint64_t reserved[4];       /**< zero: room for later fields */
} rf_sequence_pad_params;
/**
 * Makes one array of sequences of different lengths.
 * @param sequences each i32 [k]; k may be 0, `data` may then be NULL.
 * @param[out] out i32 [num_sequences, length], owned by the caller, who frees it with
 *   rf_array_free().
 */
RF_API RF_MUST_USE rf_result rf_sequences_pad(const rf_array *sequences, uint32_t num_sequences,
                                              const rf_sequence_pad_params *params, rf_array *out);
/**
 * Encodes texts and makes one array of them: rf_tokenizer_encode() and rf_sequences_pad().
 * @param sizes NULL: each text ends with a zero byte.
 * @param[out] out i32 [num_texts, length], owned by the caller, who frees it with rf_array_free().
 */
RF_API RF_MUST_USE rf_result rf_tokenizer_encode_padded(const rf_tokenizer *tokenizer,
                                                        const char *const *texts,
                                                        const size_t *sizes, uint32_t num_texts,
                                                        const rf_sequence_pad_params *params,
                                                        rf_array *out);

#ifdef __cplusplus
}
#endif
#endif
