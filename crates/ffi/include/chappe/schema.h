/*
 * Schemas: which fields the records of a tube have, and where they lie, from the members of a C struct.
 *
 *     struct trade { double price; int32_t qty; char sym[8]; };
 *     static const chappe_field fields[] = {
 *         CHAPPE_FIELD(struct trade, price), CHAPPE_FIELD(struct trade, qty), CHAPPE_FIELD(struct trade, sym),
 *     };
 *     char text[256];
 *     chappe_tube_options options = {.slots = 64, .schema = text};
 *     if (chappe_schema(fields, 3, sizeof(struct trade), text, sizeof text) < 0) ...
 *
 * The tube keeps the text. A program that opens it with a schema must say the same one; chappe(1) decodes the records by it (recv --format json),
 * and asks for some of them (recv --where). Numbers, bool, and arrays of char (a text that ends at its first zero byte) can be fields; members
 * that are left out are padding. See "Queries over records" in the guide.
 *
 * Errors: below 0, as everywhere; chappe_last_error() says which field.
 */
#ifndef CHAPPE_SCHEMA_H
#define CHAPPE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A field of a record. */
typedef struct chappe_field {
    /** Its name: a letter or _, then letters, digits and _. */
    const char *name;
    /** "bool", "i8" to "i64", "u8" to "u64", "f32", "f64", or "str". */
    const char *type;
    /** Its first byte in the record. */
    size_t at;
    /** Its bytes. */
    size_t size;
} chappe_field;

/** A member whose type is named. For C++, and for what CHAPPE_FIELD does not know. */
#define CHAPPE_FIELD_AS(record, member, type) {#member, type, offsetof(record, member), sizeof(((record *)0)->member)}

#ifndef __cplusplus
/** The type of a member: of integers by their size, so that long and long long are both known. */
#define CHAPPE_TYPE(value)                                                                                                           \
    _Generic((value),                                                                                                                \
        bool: "bool",                                                                                                                \
        signed char: "i8",                                                                                                           \
        short: "i16",                                                                                                                \
        int: "i32",                                                                                                                  \
        long: sizeof(long) == 8 ? "i64" : "i32",                                                                                     \
        long long: "i64",                                                                                                            \
        unsigned char: "u8",                                                                                                         \
        unsigned short: "u16",                                                                                                       \
        unsigned int: "u32",                                                                                                         \
        unsigned long: sizeof(long) == 8 ? "u64" : "u32",                                                                            \
        unsigned long long: "u64",                                                                                                   \
        float: "f32",                                                                                                                \
        double: "f64",                                                                                                               \
        char *: "str")
/** A member of a struct as a field. Of a type that no field can have, the program does not compile. */
#define CHAPPE_FIELD(record, member) CHAPPE_FIELD_AS(record, member, CHAPPE_TYPE(((record *)0)->member))
#endif

/**
 * Writes the schema of `count` fields of records of `size` bytes, in canonical form, as much as has room, with a 0 behind it; answers its
 * length. Does not block.
 *
 * Errors: -EINVAL: no field, a name that is there twice or that expressions read as something else, an unknown type or one of another size,
 * fields that overlap or leave the record; -EFAULT.
 */
ptrdiff_t chappe_schema(const chappe_field *fields, size_t count, size_t size, char *to, size_t room);

#ifdef __cplusplus
}
#endif

#endif
