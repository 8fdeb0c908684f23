//! Products: several items that the shop shows on one page, such as the sizes of a shirt.

use super::ProductId;

/// A product. It sells nothing itself: its items, the variants, do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    pub id: ProductId,
    pub name: String,
    /// A few sentences about it.
    pub description: String,
    /// The address of a picture, if there is one.
    pub image_url: Option<String>,
}

/// The fields of a product that is created.
#[derive(Clone, Debug)]
pub struct NewProduct {
    pub name: String,
    pub description: String,
    pub image_url: Option<String>,
}

/// What an item is among the items of its product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub product: Product,
    /// The options by which it differs from the others, in the order in which the page names them.
    pub options: Vec<VariantOption>,
}

/// What an operator wants an item to be among the items of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVariant {
    pub product: ProductId,
    pub options: Vec<VariantOption>,
}

/// An option of a variant, such as the size `M`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariantOption {
    pub name: String,
    pub value: String,
}

impl Variant {
    /// The most options of a variant.
    pub const OPTIONS_MAX: usize = 4;
    /// The longest name and the longest value of an option, in characters.
    pub const OPTION_LENGTH_MAX: usize = 50;
}

impl From<&Variant> for NewVariant {
    fn from(variant: &Variant) -> Self {
        Self { product: variant.product.id, options: variant.options.clone() }
    }
}
