// ShopAPI: the routes.
