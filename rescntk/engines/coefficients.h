// Coefficients of the polynomials of ReLU's dual activation, constant first. Written by tools/polynomials.py.
#pragma once
template <class R> struct Poly;
template <> struct Poly<double> {
    // Degree 18; truncated by 2e-17, relatively.
    struct P { double c[19]; };
    HERE static constexpr P p()
    {
        return {{0x1.ccf6429be6621p-2, 0x1.334ed7129974bp-5, 0x1.1493c190fd125p-7, 0x1.49422f64e0bf6p-9,
                 0x1.c028614d62e6dp-11, 0x1.49ff95f307166p-12, 0x1.00230156f71b4p-13, 0x1.9739275e9c0c5p-15,
                 0x1.8527bc8675b35p-16, -0x1.32ff6cb093f25p-19, 0x1.2247f41438d27p-15, -0x1.11b12a43cd81ap-14,
                 0x1.d0be1ba6a69e4p-14, -0x1.1f0ce1dfb9194p-13, 0x1.0b7a2621bcafcp-13, -0x1.66ef0c3893307p-14,
                 0x1.4bc6220b859e0p-15, -0x1.79dda8e960c5ep-17, 0x1.99edd6b2d7de6p-20}};
    }
    // Degree 16; truncated by 5e-17, relatively.
    struct R { double c[17]; };
    HERE static constexpr R r()
    {
        return {{0x1.334ed7129996cp-2, 0x1.ebb1581dc1d7ap-7, 0x1.3c1694142d378p-9, 0x1.24ac9b73f8c27p-11,
                 0x1.45eef5d99a2b8p-13, 0x1.96206e1f2e373p-15, 0x1.11971e7da4eefp-16, 0x1.779c667f56fa2p-18,
                 0x1.7d39966a2b11ep-19, -0x1.3a61d6a42645ep-20, 0x1.2c15b12777d1cp-18, -0x1.a42134c028802p-18,
                 0x1.e531fbc4aeb34p-18, -0x1.7fd355c9b199ep-18, 0x1.a3227efb76606p-19, -0x1.1508b35154ee4p-20,
                 0x1.62336a2fdeb9ap-23}};
    }
};
template <> struct Poly<float> {
    // Degree 7; truncated by 2e-08, relatively.
    struct P { float c[8]; };
    HERE static constexpr P p()
    {
        return {{0x1.ccf6420000000p-2f, 0x1.3350340000000p-5f, 0x1.14238c0000000p-7f, 0x1.56d0800000000p-9f,
                 0x1.ed9a280000000p-12f, 0x1.1691500000000p-10f, -0x1.4c35e60000000p-11f, 0x1.9471bc0000000p-12f}};
    }
    // Degree 6; truncated by 2e-08, relatively.
    struct R { float c[7]; };
    HERE static constexpr R r()
    {
        return {{0x1.334ed80000000p-2f, 0x1.ebae860000000p-7f, 0x1.3cc7980000000p-9f, 0x1.14be9e0000000p-11f,
                 0x1.ef7e200000000p-13f, -0x1.d67c720000000p-15f, 0x1.390a3e0000000p-14f}};
    }
};
