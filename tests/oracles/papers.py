"""The papers' own recursions, each in its paper's notation, in float64: for correlations off ±1."""

import numpy as np


def kappa0(rho):
    """κ0(ρ) = (π − arccos ρ)/π: the dual of √2·step."""
    return (np.pi - np.arccos(np.clip(rho, -1, 1))) / np.pi


def kappa1(rho):
    """κ1(ρ) = (√(1−ρ²) + (π − arccos ρ) ρ)/π: the dual of √2·relu."""
    rho = np.clip(rho, -1, 1)
    return (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho) / np.pi


def _t(xx, xz, zz):
    """T of Tirer et al., appendix D: E[relu(u) relu(v)]."""
    g = np.sqrt(xx * zz)
    return g / 2 * kappa1(xz / g)


def _t_erf(xx, xz, zz):
    """E[erf(u) erf(v)] (Williams 1997)."""
    return 2 / np.pi * np.arcsin(2 * xz / np.sqrt((1 + 2 * xx) * (1 + 2 * zz)))


T = {
    "relu": (_t, lambda xx, xz, zz: kappa0(xz / np.sqrt(xx * zz)) / 2),
    "erf": (
        _t_erf,
        lambda xx, xz, zz: 4 / np.pi / np.sqrt((1 + 2 * xx) * (1 + 2 * zz) - 4 * xz**2),
    ),
}


def tirer_mlp(x, z, L, sigma_w, activation="relu"):
    """Tirer et al. 2022, eq. 2 and 5: K^(L+1) and Θ^(L+1) of vectors x and z."""
    d, (t, t_dot) = len(x), T[activation]
    xx, xz, zz = (sigma_w**2 / d * a @ b for a, b in ((x, x), (x, z), (z, z)))  # K^(1)
    theta = xz
    for _ in range(L):
        slope = t_dot(xx, xz, zz)
        xx, xz, zz = (sigma_w**2 * t(*args) for args in ((xx, xx, xx), (xx, xz, zz), (zz, zz, zz)))
        theta = xz + theta * sigma_w**2 * slope
    return xz, theta


def tirer_resnet(x, z, L, alpha, sigma_v, sigma_w, activation="relu"):
    """Tirer et al. 2022, theorem 1 (eq. 7) and theorem 2 (eq. 8-10)."""
    d, (t, t_dot) = len(x), T[activation]
    s = sigma_v**2 * sigma_w**2
    xx, xz, zz = (sigma_w**2 / d * a @ b for a, b in ((x, x), (x, z), (z, z)))
    K, Sigma, Sigma_dot = {1: xz}, {}, {}
    for layer in range(1, L + 1):
        Sigma[layer + 1] = s * t(xx, xz, zz)
        Sigma_dot[layer + 1] = s * t_dot(xx, xz, zz)
        xx, zz = (a + alpha**2 * s * t(a, a, a) for a in (xx, zz))
        xz = xz + alpha**2 * Sigma[layer + 1]
        K[layer + 1] = xz
    Pi = {L: 1.0}
    for layer in range(L - 1, -1, -1):
        Pi[layer] = Pi[layer + 1] * (1 + alpha**2 * Sigma_dot[layer + 2])
    theta = K[L + 1] + Pi[0] * K[1]
    theta += alpha**2 * sum(
        Pi[layer] * (Sigma[layer + 1] + K[layer] * Sigma_dot[layer + 1])
        for layer in range(1, L + 1)
    )
    return K[L + 1], theta


def huang_ffnet(x, z, L):
    """Huang et al. 2020, poster: K_L and Ω_L of the feedforward network."""
    K = [x @ z]
    norms = np.sqrt((x @ x) * (z @ z))  # Γ_σ keeps them
    for _ in range(L):
        K.append(norms * kappa1(K[-1] / norms))
    slopes = [kappa0(k / norms) for k in K]
    omega = sum(K[layer - 1] * np.prod(slopes[layer - 1 : L]) for layer in range(1, L + 1))
    return K[L], omega


def huang_resnet(x, z, L, gamma):
    """Huang et al. 2020, poster: K_L and Ω_L of the ResNet with α = L^−γ."""
    a2 = L ** (-2.0 * gamma)
    K, xx, zz = [x @ z], x @ x, z @ z
    both, slope = [], []
    for _ in range(L):
        g = np.sqrt(xx * zz)
        both.append(g * kappa1(K[-1] / g))
        slope.append(kappa0(K[-1] / g))
        K.append(K[-1] + a2 * both[-1])
        xx, zz = (1 + a2) * xx, (1 + a2) * zz
    B = {L + 1: 1.0}
    for layer in range(L - 1, 0, -1):
        B[layer + 1] = B[layer + 2] + a2 * B[layer + 2] * slope[layer]
    omega = a2 * sum(
        B[layer + 1] * both[layer - 1] + K[layer - 1] * B[layer + 1] * slope[layer - 1]
        for layer in range(1, L + 1)
    )
    return K[L], omega


def _row_box(row, q):
    return sum(np.roll(row, -k) for k in range(-(q // 2), q // 2 + 1)) / q


def geifman_cgpk(t, L, q):
    """Geifman et al. 2022 (Barzilai et al. 2022, app. G) on the multi-sphere, pixel by pixel."""
    K = kappa1(t)
    for _ in range(L - 1):
        K = kappa1(_row_box(K, q))
    return K


def one_convolution_rescgpk(t, L, q, alpha):
    """Barzilai et al. 2022, app. G: the layer ends after the ReLU. Multi-sphere, unnormalized."""
    K, norm = t, 1.0
    for layer in range(1, L + 1):
        inner = K / norm if layer == 1 else _row_box(K / norm, q)
        K = K + alpha**2 * norm * kappa1(inner)
        norm *= 1 + alpha**2
    return K


def theorem_4_1(t, L, q, alpha, skip):
    """Barzilai et al. 2022, theorem 4.1: normalized kernel at each pixel from dot products t."""
    K = t
    for layer in range(1, L + 1):
        branch = _row_box(kappa1(K if layer == 1 else _row_box(K, q)), q)
        K = (K + alpha**2 * branch) / (1 + alpha**2) if skip else branch
    return K


def theorem_4_2(x, z, L, q, alpha, c_v, c_w):
    """Barzilai et al. 2022, theorem 4.2, any inputs: (K_Eq, Θ_Eq) by the backward recursion."""
    F = {"xx": (x * x).mean(0), "xz": (x * z).mean(0), "zz": (z * z).mean(0)}
    layers = []
    for layer in range(1, L + 1):
        sigma = {name: c_w * (F[name] if layer == 1 else _row_box(F[name], q)) for name in F}
        g = np.sqrt(sigma["xx"] * sigma["zz"])
        rho = sigma["xz"] / g
        both = {name: c_v / 2 * sigma[name] for name in F} | {"xz": c_v / 2 * g * kappa1(rho)}
        layers.append((sigma["xz"], both["xz"], c_v / 2 * kappa0(rho)))
        F = {name: F[name] + alpha**2 * _row_box(both[name], q) for name in F}
    P, theta = np.eye(x.shape[1])[0], F["xz"][0]  # P^L
    for S, K, K_dot in reversed(layers):
        theta += alpha**2 * P @ _row_box(K_dot * S + K, q)
        P = P + alpha**2 * c_w * _row_box(K_dot * _row_box(P, q), q)
    return F["xz"][0], theta
