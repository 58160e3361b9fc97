// ReLU's dual activation (formulas.h): psi0 = P(t)/D(t), psi1 = R(t)/D(t), t = 1 - a.
// The coefficients of t^0 come first. Written by tools/polynomials.py.
#pragma once
template <class R> struct Quotients;
// Relative errors: 3e-17, and 3e-17 with rounded coefficients.
template <> struct Quotients<double> {
    double p[8], r[8], d[8];
    DEVICE static constexpr Quotients numbers()
    {
        return {{0x1.7000000000000p-1, 0x1.e61eedaea8b31p+0,
                 0x1.e0245c917bf71p+0, 0x1.b8a07850b8c01p-1,
                 0x1.7c2ae1b802aaep-3, 0x1.144e49becf91dp-6,
                 0x1.f7f60f1d3d659p-12, 0x1.d3ad2c9043736p-20},
                {0x1.d48d59dd2103cp-2, 0x1.3d2f3ec26b686p+0,
                 0x1.42a77c0bc65dfp+0, 0x1.32d4fb497c5eep-1,
                 0x1.147113ad9015cp-3, 0x1.a7a0fdff13760p-7,
                 0x1.9c2e228bacda1p-12, 0x1.a036fb6a73660p-20},
                {0x1.7000000000000p+0, 0x1.ff424425f0f2ep+1,
                 0x1.0dc79164d3704p+2, 0x1.0efe8b277d548p+1,
                 0x1.0a2c0aa2428c9p-1, 0x1.d8a9bb759bff0p-5,
                 0x1.3263b621c2d34p-9, 0x1.4eaf65f8d4850p-16}};
    }
};
// Relative errors: 6e-09, and 9e-09 with rounded coefficients.
template <> struct Quotients<float> {
    float p[4], r[4], d[4];
    DEVICE static constexpr Quotients numbers()
    {
        return {{0x1.2200000000000p-1f, 0x1.39f81c0000000p-1f,
                 0x1.2ffbe00000000p-3f, 0x1.342b860000000p-8f},
                {0x1.713d4e0000000p-2f, 0x1.a810020000000p-2f,
                 0x1.c1a18e0000000p-4f, 0x1.07b6c60000000p-8f},
                {0x1.2200000000000p+0f, 0x1.6196c60000000p+0f,
                 0x1.af73ba0000000p-2f, 0x1.9e4ee40000000p-6f}};
    }
};
