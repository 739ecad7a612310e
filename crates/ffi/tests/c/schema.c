/*
 * Structs as schemas: what the macros write, tubes that keep it, and what is refused.
 */
#include "check.h"

#include <chappe/schema.h>

struct trade {
    double price;
    int32_t qty;
    char sym[8];
    uint64_t at;
};

struct all {
    bool b;
    int8_t i1;
    int16_t i2;
    int64_t i8;
    long long l;
    uint8_t u1;
    uint16_t u2;
    uint32_t u4;
    float f4;
};

static const chappe_field trades[] = {
    CHAPPE_FIELD(struct trade, at),
    CHAPPE_FIELD(struct trade, price),
    CHAPPE_FIELD(struct trade, qty),
    CHAPPE_FIELD(struct trade, sym),
};

int main(void)
{
    static const char wanted[] = "price: f64 @ 0, qty: i32 @ 8, sym: str[8] @ 12, at: u64 @ 24; size 32";
    char text[512], small[8];
    IS(chappe_schema(trades, 4, sizeof(struct trade), text, sizeof text), sizeof wanted - 1);
    IS(strcmp(text, wanted), 0);
    /* As much as has room. */
    IS(chappe_schema(trades, 4, sizeof(struct trade), small, sizeof small), sizeof wanted - 1);
    IS(strcmp(small, "price: "), 0);

    static const chappe_field every[] = {
        CHAPPE_FIELD(struct all, b),  CHAPPE_FIELD(struct all, i1), CHAPPE_FIELD(struct all, i2),
        CHAPPE_FIELD(struct all, i8), CHAPPE_FIELD(struct all, l),  CHAPPE_FIELD(struct all, u1),
        CHAPPE_FIELD(struct all, u2), CHAPPE_FIELD(struct all, u4), CHAPPE_FIELD(struct all, f4),
    };
    CHECK(chappe_schema(every, 9, sizeof(struct all), text, sizeof text) > 0);
    CHECK(strstr(text, "b: bool @ 0, i1: i8 @ 1, i2: i16 @ 2, i8: i64 @ 8, l: i64 @ 16, u1: u8 @ 24, u2: u16 @ 26, u4: u32 @ 28, f4: f32 @ 32"));

    /* What is none. */
    static const chappe_field wrong_type[] = {CHAPPE_FIELD_AS(struct trade, price, "f65")};
    FAILS(chappe_schema(wrong_type, 1, 8, text, sizeof text), EINVAL);
    static const chappe_field wrong_size[] = {CHAPPE_FIELD_AS(struct trade, price, "f32")};
    FAILS(chappe_schema(wrong_size, 1, 8, text, sizeof text), EINVAL);
    CHECK(strstr(chappe_last_error(), "price"));
    static const chappe_field twice[] = {CHAPPE_FIELD(struct trade, qty), CHAPPE_FIELD(struct trade, qty)};
    FAILS(chappe_schema(twice, 2, sizeof(struct trade), text, sizeof text), EINVAL);
    FAILS(chappe_schema(trades, 4, 16, text, sizeof text), EINVAL);
    FAILS(chappe_schema(trades, 0, 16, text, sizeof text), EINVAL);
    FAILS(chappe_schema(NULL, 1, 16, text, sizeof text), EFAULT);

    /* A tube that keeps it. */
    CHECK(chappe_schema(trades, 4, sizeof(struct trade), text, sizeof text) > 0);
    chappe_tube_options options = {.slots = 4, .schema = text};
    chappe_tube *tube, *again;
    OK(chappe_tube_create("trades", &options, &tube));
    chappe_tube_info info;
    OK(chappe_tube_look(tube, &info));
    IS(info.size, sizeof(struct trade));
    OK(chappe_tube_open("trades", &options, &again));
    OK(chappe_tube_close(again));
    OK(chappe_tube_open_or_create("trades", &options, &again));

    chappe_sender *sender;
    chappe_receiver *receiver;
    OK(chappe_tube_receiver(tube, &receiver));
    OK(chappe_tube_sender(again, &sender));
    struct trade sold = {1.5, 3, "X", 7}, got;
    OK(chappe_send(sender, &sold, sizeof sold));
    IS(chappe_recv(receiver, &got, sizeof got, NULL), sizeof got);
    IS(memcmp(&got, &sold, sizeof got), 0);
    OK(chappe_sender_close(sender));
    OK(chappe_receiver_close(receiver));
    OK(chappe_tube_close(tube));
    OK(chappe_tube_close(again));

    /* Another one is refused, and both at once. */
    chappe_tube_options other = {.slots = 4, .schema = "price: f64"};
    FAILS(chappe_tube_open("trades", &other, &tube), EPROTOTYPE);
    FAILS(chappe_tube_open_or_create("trades", &other, &tube), EPROTOTYPE);
    options.type_name = "trade";
    FAILS(chappe_tube_create("both", &options, &tube), EINVAL);
    chappe_tube_options none = {.slots = 4, .schema = "price"};
    FAILS(chappe_tube_create("none", &none, &tube), EINVAL);
    return 0;
}
